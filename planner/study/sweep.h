#pragma once
// A sweep: many requests simulated, whatever becomes of each.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
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

}  // namespace tandem
