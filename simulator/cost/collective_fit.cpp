#include "simulator/cost/collective_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "simulator/cost/collective_model.h"

namespace tandem {

namespace {

/// A constant, and the least value that its file takes.
struct Fitted {
  double CollectiveConstants::* member;
  double least;
};
constexpr double kLeastTime = 1e-12, kLeastRate = 1.0, kMostFitted = 1e18;
constexpr auto kFitted =
    std::to_array<Fitted>({{&CollectiveConstants::launch_s, kLeastTime},
                           {&CollectiveConstants::node_hop_s, kLeastTime},
                           {&CollectiveConstants::simple_s, kLeastTime},
                           {&CollectiveConstants::low_latency_bytes_per_s, kLeastRate},
                           {&CollectiveConstants::within_node_bytes_per_s, kLeastRate},
                           {&CollectiveConstants::between_nodes_bytes_per_s, kLeastRate}});
constexpr std::size_t kFittedConstants = kFitted.size();
static_assert(kFittedConstants <= 6, "few enough to be held to what they predict");
constexpr std::size_t kLeastMeasurements = 2 * kFittedConstants;

using Point = std::array<double, kFittedConstants>;  // logarithms of the constants

CollectiveConstants constants_at(const Point& point) {
  CollectiveConstants constants;
  for (std::size_t i = 0; i < kFittedConstants; ++i)
    constants.*kFitted[i].member = std::clamp(std::exp(point[i]), kFitted[i].least, kMostFitted);
  return constants;
}

/// Nelder and Mead's simplex ("A simplex method for function minimization", 1965) with their
/// reflection 1, expansion 2, contraction 1/2 and shrinking 1/2.
template <class Function>
class Simplex {
 public:
  /// Corners at `start` and, for each coordinate, `step` away from it.
  Simplex(Function function, const Point& start, double step) : function_(function) {
    corners_.fill({start, function(start)});
    for (std::size_t i = 0; i < kFittedConstants; ++i) {
      corners_[i + 1].point[i] += step;
      corners_[i + 1].value = function(corners_[i + 1].point);
    }
  }

  /// The best corner after so many steps, or when all are as good.
  Point minimum(int steps) {
    constexpr double kAlike = 1e-10;
    for (int i = 0; i < steps; ++i) {
      std::ranges::sort(corners_, {}, &Corner::value);
      if (corners_.back().value - corners_.front().value < kAlike) break;
      step();
    }
    return std::ranges::min_element(corners_, {}, &Corner::value)->point;
  }

 private:
  struct Corner {
    Point point;
    double value;
  };

  /// The worst corner, moved through the middle of the others: -1 mirrors it.
  Corner moved(double factor) const {
    Point point{};
    for (std::size_t i = 0; i < kFittedConstants; ++i) {
      double middle = 0.0;
      for (std::size_t k = 0; k < kFittedConstants; ++k)
        middle += corners_[k].point[i] / kFittedConstants;
      point[i] = middle + factor * (corners_.back().point[i] - middle);
    }
    return {point, function_(point)};
  }

  void step() {
    Corner& worst = corners_.back();
    const Corner mirrored = moved(-1.0);
    if (mirrored.value < corners_.front().value) {
      const Corner further = moved(-2.0);
      worst = further.value < mirrored.value ? further : mirrored;
    } else if (mirrored.value < worst.value) {
      worst = mirrored;
    } else if (const Corner nearer = moved(0.5); nearer.value < worst.value) {
      worst = nearer;
    } else {
      for (std::size_t k = 1; k <= kFittedConstants; ++k) {
        for (std::size_t i = 0; i < kFittedConstants; ++i)
          corners_[k].point[i] = (corners_[k].point[i] + corners_[0].point[i]) / 2.0;
        corners_[k].value = function_(corners_[k].point);
      }
    }
  }

  Function function_;
  std::array<Corner, kFittedConstants + 1> corners_;  // of the best value first
};

bool has_nodes(std::span<const AllReduceMeasurement> measurements) {
  return std::ranges::any_of(measurements,
                             [](const AllReduceMeasurement& one) { return one.group.nodes > 1; });
}

/// What the extremes say: the least times and the highest rates. Where nothing is between nodes,
/// its constants are any.
CollectiveConstants first_guess(std::span<const AllReduceMeasurement> measurements) {
  CollectiveConstants guess{.launch_s = kMostFitted, .node_hop_s = kMostFitted};
  for (const AllReduceMeasurement& one : measurements) {
    const CollectiveGroup& group = one.group;
    const double seconds = to_seconds(one.time);
    guess.launch_s = std::min(guess.launch_s, seconds / static_cast<double>(group.per_thread));
    const auto devices = static_cast<double>(group.devices);
    const double rate = 2.0 * (devices - 1.0) / devices * static_cast<double>(one.bytes) / seconds;
    if (group.nodes == 1) {
      guess.within_node_bytes_per_s = std::max(guess.within_node_bytes_per_s, rate);
    } else {
      const double hops = 2.0 * std::ceil(std::log2(static_cast<double>(group.nodes)));
      guess.node_hop_s = std::min(guess.node_hop_s, seconds / hops);
      guess.between_nodes_bytes_per_s = std::max(guess.between_nodes_bytes_per_s,
                                                 rate / static_cast<double>(group.least_per_node));
    }
  }
  if (guess.between_nodes_bytes_per_s == 0.0)
    guess.node_hop_s = guess.between_nodes_bytes_per_s = 1.0;
  guess.simple_s = 10.0 * guess.launch_s;
  guess.low_latency_bytes_per_s = guess.within_node_bytes_per_s / 100.0;
  return guess;
}

}  // namespace

double relative_error(const CollectiveConstants& constants,
                      const AllReduceMeasurement& measurement) {
  const auto bytes = static_cast<double>(measurement.bytes);
  return all_reduce_seconds(constants, measurement.group, bytes) / to_seconds(measurement.time) -
         1.0;
}

double mean_error(const CollectiveConstants& constants,
                  std::span<const AllReduceMeasurement> measurements) {
  TANDEM_CHECK(!measurements.empty());
  double sum = 0.0;
  for (const AllReduceMeasurement& one : measurements)
    sum += std::abs(relative_error(constants, one));
  return sum / static_cast<double>(measurements.size());
}

std::string lacking(std::span<const AllReduceMeasurement> measurements) {
  constexpr std::string_view kWithin = "within a node", kAcross = "over several nodes";
  const auto inside = static_cast<std::size_t>(std::ranges::count(
      measurements, 1, [](const AllReduceMeasurement& one) { return one.group.nodes; }));
  const std::size_t across = measurements.size() - inside;
  for (const auto& [count, where] : {std::pair{inside, kWithin}, std::pair{across, kAcross}}) {
    if (count < kLeastMeasurements && (count > 0 || where == kWithin))
      return fmt::format("{} all-reduces {}: expected at least {}", count, where,
                         kLeastMeasurements);
  }
  return {};
}

CollectiveConstants fit_collectives(std::span<const AllReduceMeasurement> measurements) {
  TANDEM_CHECK(lacking(measurements).empty(), lacking(measurements));
  const auto error = [&](const Point& point) {
    return mean_error(constants_at(point), measurements);
  };
  const CollectiveConstants guess = first_guess(measurements);
  Point best{};
  for (std::size_t i = 0; i < kFittedConstants; ++i) best[i] = std::log(guess.*kFitted[i].member);
  constexpr int kSteps = 500;
  for (const double step : {0.4, -0.4, 0.2, -0.2, 0.13, -0.13})
    best = Simplex(error, best, step).minimum(kSteps);
  CollectiveConstants constants = constants_at(best);
  if (!has_nodes(measurements)) constants.node_hop_s = constants.between_nodes_bytes_per_s = 0.0;
  return constants;
}

std::vector<std::optional<double>> held_out_errors(
    std::span<const AllReduceMeasurement> measurements, std::span<const std::size_t> folds) {
  TANDEM_CHECK(folds.size() == measurements.size(), folds.size(), measurements.size());
  std::vector<std::optional<double>> errors(measurements.size());
  for (const std::size_t fold : std::set<std::size_t>(folds.begin(), folds.end())) {
    std::vector<AllReduceMeasurement> seen, unseen;
    for (std::size_t i = 0; i < measurements.size(); ++i)
      (folds[i] == fold ? unseen : seen).push_back(measurements[i]);
    if (!lacking(seen).empty() || (has_nodes(unseen) && !has_nodes(seen))) continue;
    const CollectiveConstants constants = fit_collectives(seen);
    for (std::size_t i = 0; i < measurements.size(); ++i) {
      if (folds[i] == fold) errors[i] = relative_error(constants, measurements[i]);
    }
  }
  return errors;
}

std::optional<double> mean_of_known(std::span<const std::optional<double>> errors) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const std::optional<double>& error : errors) {
    if (!error) continue;
    sum += std::abs(*error);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace tandem
