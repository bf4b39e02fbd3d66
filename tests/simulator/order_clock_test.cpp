// The schedule search's clock tells what the simulator tells.

#include "core/schedules/search/order_clock.h"

#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/schedules/search/order_search.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"
#include "tests/support/order_problems.h"
#include "tests/support/pipelines.h"
#include "tests/support/search_inputs.h"

namespace tandem::testing {
namespace {

Duration simulated_makespan(const Schedule& schedule, const OrderCosts& costs) {
  StageCosts prices{.stages = {},
                    .transfer = costs.transfer,
                    .links = costs.links,
                    .reduce_tied = {},
                    .norm = {}};
  for (const StageOrderCosts& stage : costs.stages) {
    prices.stages.push_back({.forward = stage.forward,
                             .recompute = {},
                             .backward = stage.backward_input + stage.backward_weight,
                             .backward_input = stage.backward_input,
                             .backward_weight = stage.backward_weight,
                             .update = stage.update,
                             .reduce = {}});
  }
  const Program program =
      lower(schedule, costs.shared_links ? TransferLanes::shared : TransferLanes::ideal);
  const CostTable table = price(program, cost_model(program.placement(), prices));
  return simulate(program, table, {.batches = 1}).makespan;
}

TEST(OrderClock, TellsTheSimulatorsMakespanOfEveryNamedSchedule) {
  int compared = 0;
  for (const ScheduleTraits& row : schedules()) {
    if (row.weights != WeightSemantics::vanilla || row.replicas_per_stage != 1) continue;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      ScheduleRequest request =
          random_order_request(seed, static_cast<int>(seed % 4) + 1, static_cast<int>(seed));
      request.activation_caps.clear();
      request.orders = 100;
      if (reason_against(row, request)) continue;
      const Schedule schedule = make_schedule(row, request);
      const std::optional<Words> words = words_of(schedule);
      if (!words) continue;
      const OrderProblem problem = order_problem(request);
      EXPECT_EQ(OrderClock(problem).makespan(*words),
                simulated_makespan(schedule, *request.costs).count())
          << row.name << " seed " << seed;
      ++compared;
    }
  }
  EXPECT_GT(compared, 60);
}

TEST(OrderClock, TellsTheSimulatorsMakespanOfRandomOrders) {
  int deadlocks = 0, ended = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const ScheduleRequest request = random_order_request(seed, 3, 4);
    const OrderProblem problem = order_problem(request);
    Words words;
    for (std::size_t j = 0; j < 3; ++j) {
      const std::vector<Word> all = every_word(problem, j);
      words.push_back(all[random() % all.size()]);
    }
    const std::int64_t makespan = OrderClock(problem).makespan(words);
    const Schedule schedule = schedule_of(request, words);
    EXPECT_EQ(words_of(schedule), words);
    if (makespan == OrderClock::kDeadlock) {
      ++deadlocks;
      EXPECT_THROW(lower(schedule), InfeasibleError);
    } else {
      ++ended;
      EXPECT_EQ(makespan, simulated_makespan(schedule, *request.costs).count()) << seed;
    }
  }
  EXPECT_GT(deadlocks, 10);
  EXPECT_GT(ended, 50);
}

TEST(OrderClock, CriticalPathHasNoGap) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const ScheduleRequest request = random_order_request(seed, 3, 5);
    const OrderProblem problem = order_problem(request);
    const std::optional<Words> words = words_of(search_order(request).schedule);
    OrderClock clock(problem);
    const std::int64_t makespan = clock.makespan(*words);
    std::vector<OrderClock::Place> path;
    clock.critical(*words, path);
    // An op of it that takes longer makes the whole longer by as much.
    for (const OrderClock::Place& place : path) {
      OrderProblem longer = problem;
      const auto kind = static_cast<std::size_t>((*words)[place.device][place.position]);
      if (kind >= kLetters) continue;
      longer.devices[place.device].times[kind] += 1;
      EXPECT_GT(OrderClock(longer).makespan(*words), makespan) << seed;
    }
  }
}

TEST(OrderSearch, MakespanIsTheSimulators) {
  for (SearchInput& input : search_inputs()) {
    input.request.orders = 1000;
    const SearchedOrder found = search_order(input.request);
    EXPECT_EQ(found.makespan, simulated_makespan(found.schedule, *input.request.costs))
        << input.name;
  }
}

}  // namespace
}  // namespace tandem::testing
