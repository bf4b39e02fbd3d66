#include "core/schedules/search/order_search.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/memory/memory.h"
#include "core/schedules/search/order_bound.h"
#include "core/schedules/search/order_tree.h"
#include "core/verify/verify.h"
#include "tests/support/order_problems.h"
#include "tests/support/search_inputs.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

struct Size {
  int devices, microbatches;
};
constexpr Size kTiny[] = {{1, 3}, {2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}};
constexpr std::uint64_t kSeeds = 25;

TEST(OrderSearch, FindsTheBestOfAllOrdersAndProvesIt) {
  for (const Size size : kTiny) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const ScheduleRequest request = random_order_request(seed, size.devices, size.microbatches);
      const SearchedOrder found = search_order(request);
      EXPECT_EQ(found.makespan.count(), least_makespan(order_problem(request)))
          << size.devices << " x " << size.microbatches << " seed " << seed;
      EXPECT_TRUE(found.optimal());
    }
  }
}

TEST(OrderSearch, TreeAloneFindsTheBestFromTheWorst) {
  for (const Size size : kTiny) {
    for (std::uint64_t seed = 100; seed < 100 + kSeeds; ++seed) {
      const OrderProblem problem =
          order_problem(random_order_request(seed, size.devices, size.microbatches));
      OrderBound bound(problem);
      const SearchControl control;
      SearchMeter meter(1'000'000, 256, control);
      FoundOrder best{.words = {}, .makespan = OrderClock::kDeadlock};
      ASSERT_TRUE(search_tree(problem, bound, meter, best));
      EXPECT_EQ(best.makespan, least_makespan(problem)) << size.devices << " seed " << seed;
      EXPECT_EQ(OrderClock(problem).makespan(best.words), best.makespan);
    }
  }
}

TEST(OrderSearch, TreeThatIsCutShortProvesNothing) {
  const OrderProblem problem = order_problem(random_order_request(1, 3, 6));
  OrderBound bound(problem);
  const SearchControl control;
  SearchMeter meter(10, 256, control);
  FoundOrder best{.words = {}, .makespan = OrderClock::kDeadlock};
  EXPECT_FALSE(search_tree(problem, bound, meter, best));
}

TEST(OrderSearch, ProvesTheBestForThreeDevicesAndSixMicrobatches) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const SearchedOrder found = search_order(random_order_request(seed, 3, 6));
    EXPECT_TRUE(found.optimal()) << seed;
    EXPECT_FALSE(found.stopped);
  }
}

TEST(OrderBound, IsNeverAboveTheBestAndOftenIsTheBest) {
  int tight = 0, all = 0;
  for (const Size size : kTiny) {
    for (std::uint64_t seed = 200; seed < 200 + kSeeds; ++seed) {
      const OrderProblem problem =
          order_problem(random_order_request(seed, size.devices, size.microbatches));
      const std::int64_t best = least_makespan(problem), bound = OrderBound(problem).of_all();
      EXPECT_LE(bound, best) << size.devices << " x " << size.microbatches << " seed " << seed;
      tight += bound == best ? 1 : 0;
      ++all;
    }
  }
  // So that one more anywhere would be found out.
  EXPECT_GT(tight, all * 8 / 10);
}

TEST(OrderBound, OfABeginningIsNeverAboveTheBestOfItsEnds) {
  int tight = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const OrderProblem problem = order_problem(random_order_request(seed, 2, 3));
    OrderBound bound(problem);
    // Down the tree, a child at random; its best end by the tree with no bound of a node but 0.
    PartialOrder order(problem);
    std::vector<PartialOrder::Step> steps;
    for (std::uint64_t at = seed; !order.done(); at = at * 7 + 3) {
      order.choices(steps);
      ASSERT_FALSE(steps.empty());
      const PartialOrder::Step step = steps[at % steps.size()];
      order.put(step.device, step.kind);
      const std::int64_t claimed = bound.of(order);
      std::vector<PartialOrder> open{order};
      std::int64_t best = OrderClock::kDeadlock;
      while (!open.empty()) {
        const PartialOrder one = open.back();
        open.pop_back();
        if (one.done()) best = std::min(best, one.makespan());
        one.choices(steps);
        for (const PartialOrder::Step next : steps) {
          open.push_back(one);
          open.back().put(next.device, next.kind);
        }
      }
      EXPECT_LE(claimed, best) << seed;
      tight += claimed == best ? 1 : 0;
    }
  }
  EXPECT_GT(tight, 200);
}

TEST(OrderSearch, KeepsEachDevicesCapAndIsRight) {
  for (const SearchInput& input : search_inputs()) {
    ScheduleRequest request = input.request;
    request.orders = 2000;
    const SearchedOrder found = search_order(request);
    EXPECT_LE(found.bound, found.makespan) << input.name;
    const Program program = lower(found.schedule);
    const std::vector<Violation> violations = verify(program);
    EXPECT_TRUE(violations.empty()) << input.name << ": " << violations[0].message;
    Table<ReplicaId, HeldActivation> held;
    for (const StageOrderCosts& stage : request.costs->stages) held.push_back({1.0, stage.kept});
    const Table<DeviceId, double> peaks = peak_held(program, held);
    for (const DeviceId device : ids(peaks))
      EXPECT_LE(peaks[device], request.activation_caps[index(device)] + 1e-6) << input.name;
  }
}

TEST(OrderProblem, WordOverTheCapIsNotPossible) {
  ScheduleRequest request{
      .devices = 1, .microbatches = 2, .replicas = {}, .activation_caps = {1.0}};
  const Word one_ahead{Letter::forward, Letter::forward, Letter::input,
                       Letter::weight,  Letter::input,   Letter::weight};
  EXPECT_FALSE(is_possible(order_problem(request), 0, one_ahead));
  request.activation_caps = {2.0};
  EXPECT_TRUE(is_possible(order_problem(request), 0, one_ahead));
  const Word weight_first{Letter::forward, Letter::weight};
  EXPECT_FALSE(is_possible(order_problem(request), 0, weight_first));
}

TEST(OrderSearch, SameSeedFindsTheSameOrder) {
  ScheduleRequest request = search_inputs()[7].request;
  request.seed = 3;
  request.orders = 20'000;
  const SearchedOrder one = search_order(request), two = search_order(request);
  EXPECT_EQ(one.schedule, two.schedule);
  EXPECT_EQ(one.orders, two.orders);
  EXPECT_FALSE(one.optimal());
  request.seed = 4;
  EXPECT_NE(search_order(request).schedule, one.schedule);
}

TEST(OrderSearch, ReturnsTheNamedScheduleThatIsOptimal) {
  const ScheduleRequest request{
      .devices = 4, .microbatches = 12, .replicas = {}, .activation_caps = {4.0}};
  const SearchedOrder found = search_order(request);
  EXPECT_EQ(found.named, "zb-h1");
  EXPECT_TRUE(found.is_named());
  EXPECT_TRUE(found.optimal());
  EXPECT_EQ(found.gain(), 0.0);
  EXPECT_EQ(found.gap(), 0.0);
  EXPECT_EQ(found.schedule.order, make_schedule(find_schedule("zb-h1"), request).order);
}

TEST(OrderSearch, NamedScheduleThatIsNotOptimalIsBetteredAndSaysSo) {
  const SearchedOrder found = search_order(search_inputs()[2].request);
  EXPECT_EQ(found.named, "zb-h1");
  EXPECT_FALSE(found.is_named());
  EXPECT_GT(found.gain(), 0.02);
}

TEST(OrderSearch, StoppedAtOnceReturnsTheBestNamedOne) {
  const ScheduleRequest request = search_inputs()[3].request;
  const SearchedOrder found = search_order(request, {.stop = [] { return true; }, .progress = {}});
  EXPECT_TRUE(found.stopped);
  EXPECT_LE(found.makespan, found.named_makespan);
  EXPECT_FALSE(found.optimal());
}

TEST(OrderSearch, TellsOfItsProgress) {
  ScheduleRequest request = search_inputs()[7].request;
  request.orders = 5000;
  std::vector<SearchProgress> told;
  const SearchedOrder found = search_order(
      request, {.stop = {}, .progress = [&](const SearchProgress& now) { told.push_back(now); }});
  ASSERT_GT(told.size(), 10u);
  EXPECT_EQ(told.front().bound, found.bound);
  EXPECT_GE(told.front().best, told.back().best);
  EXPECT_GE(told.back().best, found.makespan);
  EXPECT_LT(told.front().orders, told.back().orders);
}

TEST(OrderSearch, RefusesCapsOfOtherDevices) {
  const ScheduleTraits& row = find_schedule("search");
  ScheduleRequest request{
      .devices = 3, .microbatches = 4, .replicas = {}, .activation_caps = {2.0, 2.0}};
  EXPECT_THAT(reason_against(row, request).value_or(""), HasSubstr("3 devices: found 2"));
  request.activation_caps = {2.0, 2.0, 0.5};
  EXPECT_THAT(reason_against(row, request).value_or(""), HasSubstr("found 0.5"));
  request.activation_caps = {2.0, 2.0, 1.0};
  EXPECT_EQ(reason_against(row, request), std::nullopt);
}

}  // namespace
}  // namespace tandem::testing
