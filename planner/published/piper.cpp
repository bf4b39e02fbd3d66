#include "planner/published/piper.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

namespace {

constexpr std::size_t kMostPiperStates = 1 << 20;
constexpr double kFitsNowhere = std::numeric_limits<double>::infinity();

/// Layers of a stage, added one by one.
class StageSums {
 public:
  StageSums(const PiperQuestion& question, const PiperDegree& degree, std::size_t first)
      : question_(question), degree_(degree), first_(first), last_(first) {}

  void add() {
    const PiperLayer& layer = degree_.layers[last_++];
    for (std::size_t mode = 0; mode < modes_.size(); ++mode) {
      modes_[mode].seconds += layer.modes[mode].seconds;
      modes_[mode].held_bytes += layer.modes[mode].held_bytes;
      modes_[mode].once_bytes = std::max(modes_[mode].once_bytes, layer.modes[mode].once_bytes);
    }
    parameters_ += layer.parameter_bytes;
    state_ += layer.state_bytes;
  }

  bool fits(bool recomputed, double width, std::int64_t widths) const {
    const PiperLayer::Mode& mode = modes_[recomputed ? 1 : 0];
    const auto own = static_cast<std::int64_t>(width);
    const auto in_flight = static_cast<double>((widths + own - 1) / own);
    return state_ + in_flight * mode.held_bytes + mode.once_bytes <= question_.memory_bytes;
  }

  /// Without what crosses to the next stage: no less than this with more layers.
  double least_load(bool recomputed, double width) const {
    const double sums =
        4.0 * (width - 1.0) * parameters_ / static_cast<double>(question_.microbatches);
    const double bytes = 2.0 * question_.boundary_bytes[first_] + sums;
    return (modes_[recomputed ? 1 : 0].seconds + bytes / question_.bytes_per_s) / width;
  }

  double load(bool recomputed, double width) const {
    const double out =
        last_ < question_.boundary_bytes.size() ? question_.boundary_bytes[last_] : 0.0;
    return least_load(recomputed, width) + 2.0 * out / question_.bytes_per_s / width;
  }

  std::size_t last() const { return last_; }

 private:
  const PiperQuestion& question_;
  const PiperDegree& degree_;
  std::size_t first_, last_;
  std::array<PiperLayer::Mode, 2> modes_ = {};
  double parameters_ = 0.0, state_ = 0.0;
};

class PiperSearch {
 public:
  explicit PiperSearch(const PiperQuestion& question)
      : question_(question),
        layers_(question.boundary_bytes.size()),
        side_(static_cast<std::size_t>(question.devices) + 1) {
    TANDEM_CHECK(layers_ > 0, layers_);
    for (const PiperDegree& degree : question.degrees)
      TANDEM_CHECK(degree.layers.size() == layers_, degree.layers.size(), layers_);
    const std::size_t states = (layers_ + 1) * side_ * side_;
    if (side_ > kMostPiperStates || states > kMostPiperStates) {
      throw InputError(fmt::format(
          "Piper's planner: {} devices and {} layers are {} states, at most {} are looked at",
          question.devices, layers_, states, kMostPiperStates));
    }
    states_.resize(states);
  }

  std::optional<PiperPlan> best() {
    for (std::size_t devices = 0; devices < side_; ++devices) state(layers_, devices, 0).load = 0.0;
    for (std::size_t first = layers_; first-- > 0;) {
      for (std::size_t widths = 1; widths < side_; ++widths) extend(first, widths);
    }
    std::size_t chosen = 0;
    for (std::size_t widths = 1; widths < side_; ++widths) {
      if (state(0, side_ - 1, widths).load < state(0, side_ - 1, chosen).load) chosen = widths;
    }
    if (state(0, side_ - 1, chosen).load == kFitsNowhere) return std::nullopt;
    PiperPlan plan{.load_s = state(0, side_ - 1, chosen).load, .stages = {}};
    std::size_t first = 0, devices = side_ - 1, widths = chosen;
    while (first < layers_) {
      const PiperStage& stage = state(first, devices, widths).stage;
      plan.stages.push_back(stage);
      first = stage.last;
      devices -= static_cast<std::size_t>(stage.width * stage.tensor);
      widths -= static_cast<std::size_t>(stage.width);
    }
    return plan;
  }

 private:
  /// The layers from one on, on at most so many devices, with stages whose widths add up.
  struct State {
    double load = kFitsNowhere;
    PiperStage stage = {};  // the first
  };
  State& state(std::size_t first, std::size_t devices, std::size_t widths) {
    return states_[(first * side_ + devices) * side_ + widths];
  }

  /// All stages that begin with this layer.
  void extend(std::size_t first, std::size_t widths) {
    for (const PiperDegree& degree : question_.degrees) {
      const auto most = std::min({static_cast<std::int64_t>(widths), question_.microbatches,
                                  std::int64_t{question_.devices} / degree.tensor});
      for (std::int32_t width = 1; width <= most; ++width) {
        StageSums sums(question_, degree, first);
        while (sums.last() < layers_) {
          sums.add();
          if (!take(sums, {first, sums.last(), width, degree.tensor}, widths)) break;
        }
      }
    }
  }

  /// Whether more layers may be of use, too.
  bool take(const StageSums& sums, PiperStage stage, std::size_t widths) {
    const double worst = state(stage.first, own_devices(stage), widths).load;
    bool more = false;
    for (const bool recomputed : {false, true}) {
      if (!sums.fits(recomputed, stage.width, static_cast<std::int64_t>(widths))) continue;
      more = more || sums.least_load(recomputed, stage.width) < worst;
      stage.recomputed = recomputed;
      put(stage, sums.load(recomputed, stage.width), widths);
    }
    return more;
  }

  static std::size_t own_devices(const PiperStage& stage) {
    return static_cast<std::size_t>(stage.width * stage.tensor);
  }

  void put(const PiperStage& stage, double load, std::size_t widths) {
    const std::size_t own = own_devices(stage);
    const std::size_t behind = widths - static_cast<std::size_t>(stage.width);
    for (std::size_t devices = own; devices < side_; ++devices) {
      const double all = std::max(load, state(stage.last, devices - own, behind).load);
      State& known = state(stage.first, devices, widths);
      if (all < known.load) known = {all, stage};
    }
  }

  const PiperQuestion& question_;
  const std::size_t layers_, side_;
  std::vector<State> states_;
};

}  // namespace

std::optional<double> piper_load(const PiperQuestion& question, const PiperStage& stage,
                                 std::int64_t behind) {
  const auto degree = std::ranges::find(question.degrees, stage.tensor, &PiperDegree::tensor);
  TANDEM_CHECK(degree != question.degrees.end(), stage.tensor);
  StageSums sums(question, *degree, stage.first);
  while (sums.last() < stage.last) sums.add();
  if (!sums.fits(stage.recomputed, stage.width, stage.width + behind)) return std::nullopt;
  return sums.load(stage.recomputed, stage.width);
}

std::optional<PiperPlan> plan_piper(const PiperQuestion& question) {
  return PiperSearch(question).best();
}

}  // namespace tandem
