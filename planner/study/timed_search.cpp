#include "planner/study/timed_search.h"

#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/schedule/user_schedule.h"
#include "core/schedules/all.h"

namespace tandem {

namespace {

void check_halves(const StageCosts& costs) {
  for (const StageId stage : ids(costs.stages)) {
    const StageTimes& times = costs.stages[stage];
    const Duration halves = times.backward_input + times.backward_weight;
    if (times.backward == halves) continue;
    throw InputError(
        fmt::format("search needs a whole backward that takes as long as its two halves: stage {} "
                    "takes {} for a whole one and {} for its halves",
                    index(stage), print_duration(times.backward), print_duration(halves)));
  }
}

/// As asked for. Where no effort is: an order of more than a million ops takes too long to look at
/// for the usual effort to be a second's.
std::optional<Duration> limit_of(const ScheduleRequest& request) {
  constexpr Duration kUsual = std::chrono::seconds(5);
  constexpr std::int64_t kOps = 1'000'000;
  if (request.time_limit) return request.time_limit;
  const bool large = std::int64_t{3} * request.devices * request.microbatches > kOps;
  return large && !request.orders ? std::optional(kUsual) : std::nullopt;
}

}  // namespace

bool is_search(const ScheduleTraits& traits) { return traits.make == make_search; }

OrderSearch timed_search(const ScheduleTraits& traits, const ScheduleRequest& request,
                         const StageCosts& costs, const SearchWatch& watch) {
  if (const auto reason = reason_against(traits, request)) throw InputError(*reason);
  check_halves(costs);
  const std::optional<Duration> limit = limit_of(request);
  const auto now = [&] { return watch.now ? watch.now() : Duration{}; };
  const Duration start = now();
  bool asked = false;
  OrderSearch search{.found = {}, .seed = request.seed};
  {
    const Activity line("search");
    const SearchControl control{.stop =
                                    [&] {
                                      asked = asked || (watch.stop && watch.stop());
                                      return asked || (limit && now() - start >= *limit);
                                    },
                                .progress =
                                    [&](const SearchProgress& far) {
                                      line.say([&] {
                                        return fmt::format(
                                            "search: {} orders, best {}, none below {}", far.orders,
                                            print_duration(far.best), print_duration(far.bound));
                                      });
                                    }};
    search.found = search_order(request, control);
  }
  search.found.schedule = completed(std::move(search.found.schedule), request);
  search.seconds = to_seconds(now() - start);
  search.interrupted = search.found.stopped && asked;
  return search;
}

}  // namespace tandem
