#pragma once
// Several schedules at the same costs: which is the fastest, and from how many microbatches on
// another one is.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/study/scenario_request.h"

namespace tandem {

struct ComparedSchedule {
  std::string schedule;
  std::string refusal = {};  // empty: it was simulated, and there are both of these
  std::optional<PreparedScenario> prepared = {};
  SimulationResult result = {};

  double samples_per_s() const { return tandem::samples_per_s(prepared->scenario, result); }
};

/// Microbatches of a batch between which the same schedules are the fastest; none: all refuse.
struct FastestRange {
  std::int64_t first = 1, last = 1;
  std::vector<std::string> fastest = {};
};

class ScheduleComparison {
 public:
  /// `requests`: what is asked of each schedule, by names. Runs of so many batches.
  ScheduleComparison(std::vector<ScenarioRequest> requests, std::int64_t batches, SearchWatch watch)
      : requests_(std::move(requests)), batches_(batches), watch_(std::move(watch)) {}

  /// The fastest first, those that refuse last. Throws Interrupted where a search was stopped.
  std::vector<ComparedSchedule> at(std::int64_t microbatches) const;

  /// From 1 to four times the microbatches asked for. Between points a sixth apart the fastest is
  /// taken to change at most once.
  std::vector<FastestRange> ranges(std::int64_t microbatches) const;

 private:
  std::vector<std::string> fastest(std::int64_t microbatches) const;
  ComparedSchedule compared(ScenarioRequest request, std::int64_t microbatches) const;
  std::int64_t first_change(std::int64_t same, std::int64_t other,
                            const std::vector<std::string>& names) const;

  std::vector<ScenarioRequest> requests_;
  std::int64_t batches_;
  SearchWatch watch_;
};

}  // namespace tandem
