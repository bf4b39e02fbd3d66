#pragma once
// find_plans(): tries every shape of the search space, drops what doesn't fit, simulates the rest,
// ranks.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/memory/memory.h"
#include "core/model/plan.h"
#include "planner/search/candidates.h"

namespace tandem {

/// Mean time a batch of an endless run, a rational: `cycle` each `batches` batches.
struct Period {
  Duration cycle{};
  std::int64_t batches = 1;
  double seconds() const { return to_seconds(cycle) / static_cast<double>(batches); }
  friend std::strong_ordering operator<=>(const Period& a, const Period& b);
  friend bool operator==(const Period& a, const Period& b) { return (a <=> b) == 0; }
};

/// A plan that fits, with what the simulation says of it.
struct Candidate {
  Plan plan;  // complete but for the path of the profile
  WeightSemantics weights = WeightSemantics::vanilla;
  std::ptrdiff_t row = 0;  // of the registry; a user schedule: 0
  Period period;
  Duration slowest{};         // compute of the busiest device for one batch: no period is shorter
  DeviceId slowest_device{};  // the first such
  Table<DeviceId, MemoryByClass> memory;
  Bytes peak_bytes = 0;  // of the fullest device

  /// Share of the period in which even the busiest device waits. Unlike bubble_of_total of
  /// simulate, recomputation and an update on the compute lane are work.
  double bubble() const;
};

/// What find_plans() found, and how much it looked at.
struct PlanResult {
  std::vector<Candidate> ranked;        // best first; of each shape its best; empty: no plan
  std::optional<Candidate> one_device;  // the best on one device, to compare with
  std::vector<Rejected> rejected;
  std::size_t shapes = 0;     // in the search space, beside those rejected without a look at memory
  std::size_t simulated = 0;  // programs
  std::size_t pruned = 0;  // shapes whose slowest device alone is slower than the last one ranked
};

/// The best plans for a request (within search_space(); exact by simulation of each). Ranked by
/// period; ties go to fewer devices, then less memory on the fullest device, then the order of the
/// registry, no recomputation, larger microbatches. Deterministic. REQUIRES: global_batch ≥ 1.
/// Throws UsageError and InputError as search_space() and costs_from_profile() do.
PlanResult find_plans(const PlanRequest& request);

}  // namespace tandem
