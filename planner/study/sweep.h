#pragma once
// A sweep: many requests simulated, whatever becomes of each, and ranked.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "planner/study/scenario_request.h"

namespace tandem {

/// A request and how many batches of it are simulated.
struct SweepRun {
  ScenarioRequest request;
  std::int64_t batches = 1;
};

struct SweepAnswer {
  SweepRun run;
  PreparedScenario prepared;
  SimulationResult result;
  std::optional<SimulationResult> healthy = {};  // where something is wrong
};

struct SweepFailure {
  ExitCode code{};
  std::string message = {};
  std::vector<Diagnostic> diagnostics = {};
  bool impossible_shape = false;  // sizes that don't go together
};

/// One of the two is there.
struct SweepOutcome {
  std::optional<SweepAnswer> answer = {};
  SweepFailure failure = {};
};

/// An error that concerns this one run alone is its outcome. Throws Interrupted when a stop cut its
/// search short.
SweepOutcome sweep_outcome(const std::function<SweepRun()>& run, const SearchWatch& watch = {});

/// The figures of a simulated configuration; not a number: nothing is known of it.
struct SweepFigures {
  double samples_per_s, tokens_per_s, flops_per_s_per_device;
  double devices;  // of all pipelines
  double period_s, makespan_s;
  double ideal_s_a_batch;               // computing of the busiest device
  double peak_bytes, peak_activations;  // of the fullest device
};

/// What rows are ranked by.
struct SweepMetric {
  std::string_view name;
  bool more_is_better = true;
  double (*of)(const SweepFigures&) = nullptr;
};
std::span<const SweepMetric> sweep_metrics();
/// The index of a metric. REQUIRES: there is one of this name.
std::size_t sweep_metric(std::string_view name);

/// How devices are shared out; 0: not known, as the tensor degree at plain costs.
struct SweepShape {
  std::int64_t tensor = 0, depth = 0, width = 0;
};

/// What is kept of a configuration.
struct SweptRow {
  std::size_t index = 0;                // of the configuration
  std::string refusal = {};             // empty: it was simulated
  std::vector<double> metrics = {};     // one each; not a number: not known
  std::optional<bool> fits = {};        // all devices; empty: not known
  std::optional<double> capacity = {};  // in bytes, of the fullest device; empty: not known
  SweepShape shape = {};
  std::optional<WeightSemantics> weights = {};  // empty: not known

  bool simulated() const { return refusal.empty(); }
  /// Simulated, and nothing is known to be too large.
  bool works() const { return simulated() && fits.value_or(true); }
  void set_metrics(const SweepFigures& figures);
};
SweptRow swept_row(std::size_t index, const SweepOutcome& outcome);

/// Those that work, by their metric, the best first; then those that do not fit; then those that
/// can't be simulated. Of equal ones the first configuration first.
template <class Row>
std::vector<std::size_t> ranking(const std::vector<Row>& rows, std::size_t metric) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto group = [](const SweptRow& row) { return row.works() ? 0 : row.simulated() ? 1 : 2; };
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    const SweptRow &a = rows[left], &b = rows[right];
    if (group(a) != group(b)) return group(a) < group(b);
    const double x = a.metrics[metric], y = b.metrics[metric];
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (!std::isnan(x) && x != y) return (x > y) == sweep_metrics()[metric].more_is_better;
    return a.index < b.index;
  });
  return order;
}

}  // namespace tandem
