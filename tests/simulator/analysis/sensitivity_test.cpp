// Sensitivities against simulating again: where all prices are a million times as large, a
// millionth of a resource's time is whole nanoseconds, and no other path overtakes, so that first
// order is exact.

#include "simulator/analysis/sensitivity.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/program/graph.h"
#include "tests/simulator/makespan.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

/// `times` as large, and what the resource uses by one part of that more, or less.
CostTable changed(const Program& program, const CostTable& costs, const Resource& resource,
                  std::int64_t times, std::int64_t more) {
  CostTable table = costs;
  for (const CostId cost : ids(table))
    table[cost] *= times + (uses(resource, program.cost_keys()[cost]) ? more : 0);
  return table;
}

std::vector<Pipeline> a_fifth_of_pipelines(const std::string& schedule) {
  return every_pipeline(schedule, {1, 2, 3, 4}, {2, 4}, 5);
}

struct ResourcesSeen {
  std::size_t two_sided = 0;           // some critical paths spend more than others
  std::size_t beyond_first_order = 0;  // at half the time other paths are critical
};

ResourcesSeen expect_resources_as_simulated_again(const std::string& schedule) {
  ResourcesSeen seen;
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : a_fifth_of_pipelines(schedule)) {
    const Program program = program_of(wanted);
    const std::int64_t batches = 1 + static_cast<std::int64_t>(++seed % 3);
    const CostTable costs = random_costs(program, seed, static_cast<Spread>(seed % 3));
    const std::int64_t all = makespan(program, costs, batches).count();
    const std::vector<Sensitivity> rows =
        CriticalPaths::of_run(program, costs, batches).spent_on_resources();
    EXPECT_EQ(rows.size(), resources(program).size());
    for (const Sensitivity& row : rows) {
      SCOPED_TRACE(wanted.name() + ", " + name(row.resource));
      const auto with = [&](std::int64_t times, std::int64_t more) {
        return makespan(program, changed(program, costs, row.resource, times, more), batches)
            .count();
      };
      EXPECT_EQ(with(kMillion, -1), kMillion * all - row.least.time.count());
      EXPECT_EQ(with(kMillion, 1), kMillion * all + row.most.time.count());
      EXPECT_EQ(row.least.batches, 1);
      seen.two_sided += row.least != row.most;
      seen.beyond_first_order += with(2, -1) != 2 * all - row.least.time.count();
    }
  }
  return seen;
}

class EverySchedulesSensitivity : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySchedulesSensitivity, OfTheMakespanIsWhatSimulatingAgainFinds) {
  expect_resources_as_simulated_again(GetParam());
}

TEST(MakespanSensitivity, HasTwoSidesWherePathsTieAndEndsWhereOthersTakeOver) {
  for (const char* schedule : {"1f1b", "2bw", "zbv"}) {
    const ResourcesSeen seen = expect_resources_as_simulated_again(schedule);
    EXPECT_GT(seen.two_sided, 0u) << schedule;
    EXPECT_GT(seen.beyond_first_order, 0u) << schedule;
  }
}

TEST_P(EverySchedulesSensitivity, OfThePeriodIsThatOfTheMaximumCycleRatio) {
  std::uint64_t seed = 0;
  for (const Pipeline& wanted : a_fifth_of_pipelines(GetParam())) {
    if (++seed % 3 != 0) continue;
    const Program program = program_of(wanted);
    const CostTable costs = random_costs(program, seed, static_cast<Spread>(seed / 3 % 3));
    const SimulationResult result = simulate(program, costs, {});
    ASSERT_TRUE(result.exact_cycle) << wanted.name();
    const double period =
        static_cast<double>(result.cycle.count()) / static_cast<double>(result.cycle_batches);
    for (const Sensitivity& row :
         CriticalPaths::of_endless_run(program, costs, result).spent_on_resources()) {
      SCOPED_TRACE(wanted.name() + ", " + name(row.resource));
      const auto with = [&](std::int64_t more) {
        return maximum_cycle_ratio(program, changed(program, costs, row.resource, kMillion, more));
      };
      const auto whole = static_cast<double>(kMillion) * period;
      EXPECT_NEAR(with(-1), whole - 1e9 * row.least.seconds_a_batch(), 0.02);
      EXPECT_NEAR(with(1), whole + 1e9 * row.most.seconds_a_batch(), 0.02);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedulesSensitivity,
                         ::testing::ValuesIn(schedule_names()), test_name);

Sensitivity row_of(const std::vector<Sensitivity>& rows, const Resource& resource) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Sensitivity& row) { return row.resource == resource; });
  EXPECT_NE(found, rows.end()) << name(resource);
  return found == rows.end() ? Sensitivity{} : *found;
}

Resource device(std::size_t at) { return device_resource(id_at<DeviceId>(at)); }

TEST(PeriodSensitivity, OfEqualDevicesThatNeverWaitIsNoneOfOneAloneAndAllOfThemTogether) {
  const Program program = program_of(pipeline("2bw", 4, 8));
  const CostTable costs = plain_costs(program, {.forward = 1000, .backward = 2000});
  const SimulationResult result = simulate(program, costs, {});
  const std::vector<Sensitivity> rows =
      CriticalPaths::of_endless_run(program, costs, result).spent_on_resources();
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(row_of(rows, device(d)).least.time, Duration(0)) << d;
    EXPECT_EQ(row_of(rows, device(d)).most.seconds_a_batch(), 24'000e-9) << d;
  }
  const Sensitivity all = row_of(rows, {.kind = Resource::Kind::all_devices});
  EXPECT_EQ(all.least.seconds_a_batch(), 24'000e-9);
  EXPECT_EQ(all.most.seconds_a_batch(), 24'000e-9);
}

TEST(PeriodSensitivity, OfTheSlowestDeviceIsItsWholeTime) {
  const Program program = program_of(pipeline("2bw", 4, 8));
  const CostTable costs =
      scaled(program, plain_costs(program, {.forward = 1000, .backward = 2000, .transfer = 10}),
             device(2), 1.5);
  const SimulationResult result = simulate(program, costs, {});
  const std::vector<Sensitivity> rows =
      CriticalPaths::of_endless_run(program, costs, result).spent_on_resources();
  for (std::size_t d = 0; d < 4; ++d) {
    const double seconds = d == 2 ? 36'000e-9 : 0.0;
    EXPECT_EQ(row_of(rows, device(d)).least.seconds_a_batch(), seconds) << d;
    EXPECT_EQ(row_of(rows, device(d)).most.seconds_a_batch(), seconds) << d;
  }
}

TEST(PeriodSensitivity, OfACycleOfSeveralBatchesCountsAllOfThem) {
  // 18.9 ms a batch, every two: F + B + 2c(p−1)/p a microbatch, which gains a quarter of each
  // device's time and half of each link's.
  const Program program = program_of(pipeline("2bw", 4, 6));
  const CostTable costs =
      plain_costs(program, {.forward = 1'000'000, .backward = 2'000'000, .transfer = 100'000});
  const SimulationResult result = simulate(program, costs, {});
  ASSERT_EQ(result.cycle_batches, 2);
  const std::vector<Sensitivity> rows =
      CriticalPaths::of_endless_run(program, costs, result).spent_on_resources();
  const Sensitivity devices = row_of(rows, {.kind = Resource::Kind::all_devices});
  const Sensitivity links = row_of(rows, {.kind = Resource::Kind::all_links});
  EXPECT_DOUBLE_EQ(devices.least.seconds_a_batch(), 18e-3);
  EXPECT_DOUBLE_EQ(links.most.seconds_a_batch(), 0.9e-3);
}

TEST(NextBottleneck, TakesOverWhereTheFirstIsAsFast) {
  const Program program = program_of(pipeline("2bw", 4, 8));
  const CostTable equal = plain_costs(program, {.forward = 1000, .backward = 2000});
  const auto next_of = [&](const CostTable& costs) {
    const SimulationResult result = simulate(program, costs, {});
    const auto first =
        bottlenecks(CriticalPaths::of_endless_run(program, costs, result).spent_on_resources())
            .front();
    EXPECT_EQ(first.resource, device(2));
    return next_bottleneck(program, costs, first);
  };
  const CostTable costs = scaled(program, scaled(program, equal, device(2), 1.5), device(1), 1.2);
  const auto next = next_of(costs);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->resource, device(1));
  EXPECT_NEAR(next->from, 0.2, 1e-3) << "1.5 · 0.8 is 1.2";
  const auto sooner = next_of(scaled(program, costs, device(0), 1.35));
  ASSERT_TRUE(sooner);
  EXPECT_EQ(sooner->resource, device(0));
  EXPECT_NEAR(sooner->from, 0.1, 1e-3);
}

TEST(MakespanSensitivity, OfOneOpAtATimeIsWhatEachTakes) {
  const Program program = program_of(pipeline("model-parallel", 3, 4));
  const CostTable costs = plain_costs(program, {.forward = 10, .backward = 20, .transfer = 3});
  const std::vector<Sensitivity> rows =
      CriticalPaths::of_run(program, costs, 2).spent_on_resources();
  const auto expect = [&](const Resource& resource, std::int64_t time) {
    EXPECT_EQ(row_of(rows, resource).least.time, Duration(time)) << name(resource);
    EXPECT_EQ(row_of(rows, resource).most.time, Duration(time)) << name(resource);
  };
  for (std::size_t d = 0; d < 3; ++d) expect(device(d), 2 * 4 * 30);
  expect(link_resource(DeviceId{0}, DeviceId{1}), 2 * 4 * 6);
  expect(link_resource(DeviceId{2}, DeviceId{1}), 2 * 4 * 6);
  expect({.kind = Resource::Kind::all_links}, 2 * 4 * 12);
  expect({.kind = Resource::Kind::op, .replica = ReplicaId{1}, .op = OpKind::backward}, 2 * 4 * 20);
}

TEST(MakespanSensitivity, RefusesRunsThatAreTooLongToFollow) {
  const Program program = program_of(pipeline("1f1b", 4, 8));
  const CostTable costs = plain_costs(program, {});
  EXPECT_THROW(CriticalPaths::of_run(program, costs, 1'000'000).spent_on_resources(), InputError);
  EXPECT_NO_THROW(CriticalPaths::of_run(program, costs, 10).spent_on_resources());
}

TEST(Resource, IsNamedAsPeopleWould) {
  const Program program = program_of(pipeline("1f1b", 2, 2));
  std::string names;
  for (const Resource& resource : resources(program)) names += name(resource) + "; ";
  EXPECT_EQ(names,
            "all devices; all links; device 0; device 1; link 0-1; forward of stage 0; backward of "
            "stage 0; update of stage 0; forward of stage 1; backward of stage 1; update of stage "
            "1; ");
}

}  // namespace
}  // namespace tandem::testing
