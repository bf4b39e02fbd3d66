#include "planner/study/comparison.h"

#include <algorithm>

#include "core/base/error.h"

namespace tandem {

std::vector<ComparedSchedule> ScheduleComparison::at(std::int64_t microbatches) const {
  std::vector<ComparedSchedule> all;
  for (const ScenarioRequest& request : requests_) all.push_back(compared(request, microbatches));
  std::ranges::stable_sort(all, [](const ComparedSchedule& a, const ComparedSchedule& b) {
    if (a.refusal.empty() != b.refusal.empty()) return a.refusal.empty();
    return a.refusal.empty() && a.samples_per_s() > b.samples_per_s();
  });
  return all;
}

/// Those that none is faster than by more than rounding; none: all refuse.
std::vector<std::string> ScheduleComparison::fastest(std::int64_t microbatches) const {
  constexpr double kTimeRounding = 1e-6;  // of times divided among chunks
  std::vector<std::string> names;
  const std::vector<ComparedSchedule> all = at(microbatches);
  for (const ComparedSchedule& one : all) {
    if (one.refusal.empty() &&
        one.samples_per_s() * (1.0 + kTimeRounding) >= all.front().samples_per_s())
      names.push_back(one.schedule);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<FastestRange> ScheduleComparison::ranges(std::int64_t microbatches) const {
  const std::int64_t end = std::min<std::int64_t>(4 * microbatches, kMostPlannedMicrobatches);
  std::vector<FastestRange> found{{1, 1, fastest(1)}};
  for (std::int64_t at = 1; at < end;) {
    const std::int64_t next = std::min(end, at + std::max<std::int64_t>(1, at / 6));
    std::vector<std::string> there = fastest(next);
    if (there != found.back().fastest) {
      const std::int64_t first = first_change(at, next, found.back().fastest);
      found.back().last = first - 1;
      found.push_back({first, next, std::move(there)});
    }
    found.back().last = next;
    at = next;
  }
  return found;
}

ComparedSchedule ScheduleComparison::compared(ScenarioRequest request,
                                              std::int64_t microbatches) const {
  ComparedSchedule one{.schedule = std::string(schedule_of(request)->name)};
  set_microbatches(microbatches, request);
  try {
    one.prepared = prepare_scenario(request, watch_);
  } catch (const InputError& error) {
    one.refusal = error.what();
    return one;
  }
  if (one.prepared->search && one.prepared->search->interrupted)
    throw Interrupted("interrupted: nothing was compared");
  one.result = simulate(one.prepared->scenario, {.batches = batches_});
  return one;
}

/// The first of (`same`, `other`] at which others are the fastest than at `same`.
std::int64_t ScheduleComparison::first_change(std::int64_t same, std::int64_t other,
                                              const std::vector<std::string>& names) const {
  while (other - same > 1) {
    const std::int64_t middle = same + (other - same) / 2;
    (fastest(middle) == names ? same : other) = middle;
  }
  return other;
}

}  // namespace tandem
