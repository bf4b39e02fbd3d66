// Critical spans against simulating again: a price has one exactly where a little more of it makes
// the run longer.

#include "simulator/analysis/critical_graph.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simulator/makespan.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

class EverySchedulesCriticalSpans : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesCriticalSpans, AreThoseThatMakeTheRunLonger) {
  std::uint64_t seed = 0;
  std::size_t prices = 0, critical_prices = 0;
  for (const Pipeline& wanted : every_pipeline(GetParam(), {1, 2, 4}, {2, 4}, 5)) {
    ++seed;
    const Program program = program_of(wanted);
    const std::int64_t batches = 1 + static_cast<std::int64_t>(seed % 2);
    CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    for (const CostId cost : ids(costs)) costs[cost] *= 1000;  // 1 ns more is little
    Timeline timeline;
    const Duration before = makespan(program, costs, batches, &timeline);
    const std::vector<bool> critical = critical_spans(program, timeline, before);
    ASSERT_EQ(critical.size(), timeline.spans.size());
    std::vector<bool> has(costs.size(), false);
    for (std::size_t i = 0; i < critical.size(); ++i) {
      if (critical[i]) has[index(program[timeline.spans[i].instruction].cost)] = true;
    }
    for (const CostId cost : ids(costs)) {
      CostTable more = costs;
      more[cost] += Duration(1);
      EXPECT_EQ(makespan(program, more, batches) > before, has[index(cost)])
          << wanted.name() << ", price " << index(cost);
      ++prices;
      critical_prices += has[index(cost)];
    }
  }
  EXPECT_GT(prices, 0u);
  EXPECT_GT(critical_prices, 0u);
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesCriticalSpans,
                         ::testing::Values("1f1b", "2bw", "zb-h1", "zbv", "interleaved", "chimera",
                                           "dualpipe", "pipedream", "bpipe"));

/// Some of what runs is not critical, and all may be.
TEST(CriticalSpans, AreSomeOrAll) {
  for (const int devices : {1, 4}) {
    const Program program = program_of(pipeline("1f1b", devices, 8));
    const CostTable costs = price(program, [](const CostKey& key) {
      return is_optimizer(key.kind) ? Duration{} : Duration(key.kind == OpKind::backward ? 20 : 10);
    });
    Timeline timeline;
    const Duration length = makespan(program, costs, 1, &timeline);
    const std::vector<bool> critical = critical_spans(program, timeline, length);
    const auto count = std::count(critical.begin(), critical.end(), true);
    EXPECT_GT(count, 0);
    EXPECT_EQ(count == static_cast<std::ptrdiff_t>(critical.size()), devices == 1);
  }
}

}  // namespace
}  // namespace tandem::testing
