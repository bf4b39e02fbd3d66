#include "simulator/replay/replay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

/// The lower one of an even number. REQUIRES: there is one.
template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What is common to how much longer than usual a microbatch took on each stage. One stage says
/// nothing; of two that agree in the direction the smaller change counts.
double common_factor(const std::vector<double>& ratios) {
  if (ratios.size() > 2) return median(ratios);
  if (ratios.size() < 2) return 1.0;
  const auto [least, most] = std::minmax(ratios[0], ratios[1]);
  return least > 1.0 ? least : most < 1.0 ? most : 1.0;
}

Duration scaled(Duration time, double factor) {
  return Duration(std::llround(static_cast<double>(time.count()) * factor));
}

}  // namespace

double ReplayedStep::error() const {
  return measured == Duration{} ? 0.0 : to_seconds(replayed - measured) / to_seconds(measured);
}

Replay::Replay(const Recording& recording, std::optional<RecordedTransfers> transfers, bool pauses)
    : transfers_(transfers ? *transfers : seen_transfers(recording)),
      whole_steps_(recording.whole_steps),
      warnings_(recording.warnings) {
  const Placement placement = recording.wave
                                  ? wave_placement(recording.devices, recording.chunks)
                                  : looped_placement(recording.devices, recording.chunks);
  const ReplayModel model{.transfers = transfers_, .pauses = pauses};
  std::vector<std::string> reasons;
  std::size_t changed = 0;
  for (const RecordedPass& pass : recording.passes) {
    try {
      RecordedProgram recorded = recorded_program(pass, placement, model);
      const Duration replayed = replayed_length(recorded.program, recorded.costs);
      changed += recorded.transfers != transfers_ ? 1u : 0u;
      passes_.push_back({pass.step, pass.replica, std::move(recorded), replayed});
    } catch (const Error& error) {
      reasons.emplace_back(error.what());
    }
  }
  if (passes_.empty()) {
    throw InputError(fmt::format("no step of any replica is a whole pipeline: {}",
                                 reasons.empty() ? "there is none" : reasons.front()));
  }
  if (!reasons.empty()) {
    warnings_.push_back(
        fmt::format("{} of {} steps of replicas are left out, the first for this: {}",
                    reasons.size(), recording.passes.size(), reasons.front()));
  }
  if (changed > 0) {
    warnings_.push_back(
        fmt::format("{} of {} steps of replicas are replayed with other transfers than {}: theirs "
                    "were not all recorded, or not in an order in which ranks can meet",
                    changed, passes_.size(), name(transfers_)));
  }
  measure_usual();
}

void Replay::measure_usual() {
  const Placement& placement = passes_.front().recorded.program.placement();
  using Samples = std::map<std::int64_t, std::vector<Duration>>;  // of transfers, by replica
  std::array<Table<ReplicaId, Samples>, kOpKinds> samples;
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    samples[kind].resize(placement.replicas());
    usual_[kind].resize(placement.replicas());
    on_device_[kind].resize(placement.devices);
  }
  for (const Pass& pass : passes_) {
    for (const Instruction& instruction : pass.recorded.program.instructions()) {
      const Op& op = instruction.op;
      const Duration time = pass.recorded.costs[instruction.cost];
      Usual& known = usual_[index(op.kind)][op.replica];
      known.of_replica[pass.replica].add({time, 1});
      known.all.add({time, 1});
      if (is_transfer(op.kind)) samples[index(op.kind)][op.replica][pass.replica].push_back(time);
    }
  }
  for (const OpTraits& row : kOpTraits) {
    const std::size_t kind = index(row.kind);
    for (const ReplicaId replica : ids(usual_[kind])) {
      std::vector<Duration> medians;
      for (auto& [pipeline, times] : samples[kind][replica])
        medians.push_back(median(std::move(times)));
      if (!medians.empty()) usual_[kind][replica].median = median(std::move(medians));
      if (usual_[kind][replica].all.count == 0) continue;
      const Sum one{usual(row.kind, replica), 1};
      on_all_[kind].add(one);
      on_device_[kind][placement.device[replica]].add(one);
    }
  }
  measure_content();
}

/// Of each replica on its own, so that a slow one is none that had more to do.
void Replay::measure_content() {
  struct Factors {
    double sum = 0.0;
    std::int64_t count = 0;
  };
  std::map<std::pair<std::size_t, std::int64_t>, Factors> of_replica;  // by kind, replica
  for (Pass& pass : passes_) {
    const auto microbatches = static_cast<std::size_t>(pass.recorded.program.microbatches());
    std::array<std::vector<std::vector<double>>, kOpKinds> ratios;
    for (const Instruction& instruction : pass.recorded.program.instructions()) {
      const Op& op = instruction.op;
      const Duration mean = usual_[index(op.kind)][op.replica].of_replica.at(pass.replica).mean();
      if (!is_useful(op.kind) || mean == Duration{}) continue;
      auto& of_kind = ratios[index(op.kind)];
      of_kind.resize(microbatches);
      of_kind[static_cast<std::size_t>(op.microbatch)].push_back(
          to_seconds(pass.recorded.costs[instruction.cost]) / to_seconds(mean));
    }
    for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
      for (const std::vector<double>& of_stages : ratios[kind]) {
        Factors& factors = of_replica[{kind, pass.replica}];
        pass.content[kind].push_back(common_factor(of_stages));
        factors.sum += pass.content[kind].back();
        ++factors.count;
      }
    }
  }
  for (Pass& pass : passes_) {
    for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
      const Factors& factors = of_replica[{kind, pass.replica}];
      for (double& factor : pass.content[kind])
        factor *= static_cast<double>(factors.count) / factors.sum;
    }
  }
}

double Replay::content_variation() const {
  double squares = 0.0, count = 0.0;
  for (const Pass& pass : passes_) {
    for (const double factor : pass.content[index(OpKind::forward)]) {
      squares += (factor - 1.0) * (factor - 1.0);
      ++count;
    }
  }
  return count == 0.0 ? 0.0 : std::sqrt(squares / count);
}

Duration Replay::usual(OpKind kind, ReplicaId replica, std::optional<std::int64_t> except) const {
  const Usual& known = usual_[index(kind)][replica];
  if (is_transfer(kind)) return known.median;
  const auto own = except ? known.of_replica.find(*except) : known.of_replica.end();
  if (own == known.of_replica.end() || known.of_replica.size() == 1) return known.all.mean();
  return Sum{known.all.time - own->second.time, known.all.count - own->second.count}.mean();
}

Duration Replay::usual_elsewhere(OpKind kind, std::optional<DeviceId> except) const {
  const Sum all = on_all_[index(kind)];
  const Sum own = except ? on_device_[index(kind)][*except] : Sum{};
  if (own.count == all.count) return all.mean();
  return Sum{all.time - own.time, all.count - own.count}.mean();
}

Duration Replay::cost(const Pass& pass, InstructionId id, const ReplayVariation& variation) const {
  const Instruction& instruction = pass.recorded.program[id];
  const Op& op = instruction.op;
  const Duration measured = pass.recorded.costs[instruction.cost];
  using Durations = ReplayVariation::Durations;
  if (!is_compute(op.kind)) {
    const bool usually = is_transfer(op.kind) && variation.durations != Durations::measured;
    return usually ? usual(op.kind, op.replica) : measured;
  }
  const std::vector<double>& content = pass.content[index(op.kind)];
  const double factor = content.empty() ? 1.0 : content[static_cast<std::size_t>(op.microbatch)];
  if (variation.durations == Durations::usual) return scaled(usual(op.kind, op.replica), factor);
  if (variation.durations == Durations::balanced) return scaled(usual_elsewhere(op.kind), factor);
  const DeviceId device = pass.recorded.program.placement().device[op.replica];
  for (const Straggler& straggler : variation.without) {
    if (straggler.device && *straggler.device != device) continue;
    if (straggler.replica && *straggler.replica != pass.replica) continue;
    const bool alone = usual_[index(op.kind)][op.replica].of_replica.size() == 1;
    if (!straggler.replica || (straggler.device && alone))
      return scaled(usual_elsewhere(op.kind, device), factor);
    return scaled(usual(op.kind, op.replica, pass.replica), factor);
  }
  return measured;
}

CostTable Replay::costs(std::size_t pass, const ReplayVariation& variation) const {
  const Program& program = passes_[pass].recorded.program;
  CostTable costs(program.size());
  for (const InstructionId id : program.order())
    costs[program[id].cost] = cost(passes_[pass], id, variation);
  return costs;
}

/// Replicas begin when they began.
template <class Length>
std::vector<Duration> Replay::phases_by(const Length& length) const {
  std::vector<Duration> phases;
  for (std::size_t first = 0; first < passes_.size();) {
    Duration start = Duration::max(), end = Duration::min();
    std::size_t pass = first;
    for (; pass < passes_.size() && passes_[pass].step == passes_[first].step; ++pass) {
      const Duration began = passes_[pass].recorded.start;
      start = std::min(start, began);
      end = std::max(end, began + length(pass));
    }
    phases.push_back(end - start);
    first = pass;
  }
  return phases;
}

std::vector<Duration> Replay::phases(const ReplayVariation& variation) const {
  const auto touches = [&](const Pass& pass) {
    return variation.durations != ReplayVariation::Durations::measured ||
           std::ranges::any_of(variation.without, [&](const Straggler& straggler) {
             return !straggler.replica || *straggler.replica == pass.replica;
           });
  };
  return phases_by([&](std::size_t pass) {
    if (!touches(passes_[pass])) return passes_[pass].replayed;
    return replayed_length(passes_[pass].recorded.program, costs(pass, variation));
  });
}

std::vector<ReplayedStep> Replay::steps() const {
  const std::vector<Duration> measured =
      phases_by([&](std::size_t pass) { return passes_[pass].recorded.length; });
  const std::vector<Duration> replayed = phases({});
  std::vector<ReplayedStep> steps;
  for (const Pass& pass : passes_) {
    if (!steps.empty() && steps.back().step == pass.step) continue;
    const auto whole = whole_steps_.find(pass.step);
    steps.push_back({.step = pass.step,
                     .whole = whole == whole_steps_.end() ? Duration{} : whole->second,
                     .measured = measured[steps.size()],
                     .replayed = replayed[steps.size()]});
  }
  return steps;
}

}  // namespace tandem
