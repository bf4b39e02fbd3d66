#pragma once
// A sweep: many requests simulated, by several threads, whatever becomes of each.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "planner/study/ordered_work.h"
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

/// An error that concerns this one run alone is its outcome. Throws Interrupted when `stop` cut its
/// search short.
SweepOutcome sweep_outcome(const std::function<SweepRun()>& run, const StopAsked& stop = {});

/// Simulates `run(0)` to `run(count - 1)`. `row` makes of each outcome what is kept, on any thread;
/// `take` gets the rows in order, one at a time, whatever the number of threads. After a stop those
/// begun are finished and handed over.
template <class Row>
void sweep(std::size_t count, int threads, const std::stop_token& stop,
           const std::function<SweepRun(std::size_t)>& run,
           const std::function<Row(std::size_t, const SweepOutcome&)>& row,
           const std::function<void(Row)>& take) {
  const StopAsked asked = [&] { return stop.stop_requested(); };
  const std::function<Row(std::size_t)> make = [&](std::size_t place) {
    return row(place, sweep_outcome([&] { return run(place); }, asked));
  };
  OrderedWork<Row>(count, stop, make, take).run(threads);
}

}  // namespace tandem
