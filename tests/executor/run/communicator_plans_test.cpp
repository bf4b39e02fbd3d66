// Which communicators a run has, and that all devices make them in one order, so that nobody waits
// for ever.

#include "executor/run/communicator_plans.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pipelines.h"
#include "tests/support/training.h"

namespace tandem {
namespace {

using testing::TrainingCase;
using Lists = std::vector<std::vector<std::size_t>>;  // of each device, what it makes in order

/// Each device makes what is next on its list, which all members must be at: how many are left when
/// nobody gets on.
std::size_t left_unmade(const CommunicatorPlans& plans, Lists lists) {
  for (auto& list : lists) std::ranges::reverse(list);  // the next is the last
  std::size_t left = plans.all().size();
  for (bool got_on = true; got_on;) {
    got_on = false;
    for (std::size_t i = 0; i < plans.all().size(); ++i) {
      const auto& members = plans.all()[i].devices;
      if (!std::ranges::all_of(members, [&](DeviceId device) {
            return !lists[index(device)].empty() && lists[index(device)].back() == i;
          }))
        continue;
      for (const DeviceId device : members) lists[index(device)].pop_back();
      --left;
      got_on = true;
    }
  }
  return left;
}

Lists lists_of(const CommunicatorPlans& plans, std::size_t devices) {
  Lists lists;
  for (std::size_t device = 0; device < devices; ++device)
    lists.push_back(plans.of_device(id_at<DeviceId>(device)));
  return lists;
}

class CommunicatorsOf : public ::testing::TestWithParam<std::string> {
 protected:
  /// Over depths and widths that the schedule takes: calls with the program and its width.
  template <class Check>
  static void for_each_program(const Check& check) {
    for (const std::uint16_t devices : std::initializer_list<std::uint16_t>{2, 3, 4, 6, 8}) {
      for (const std::uint16_t width : std::initializer_list<std::uint16_t>{1, 2, 3}) {
        TrainingCase test = TrainingCase::on(GetParam(), devices);
        const std::uint16_t only = find_schedule(GetParam()).only_devices;
        if (only != 0) test.devices = only;
        test.width = width;
        test.model.blocks = 16;
        for (test.microbatches = 4; !test.is_served() && test.microbatches < 24;)
          ++test.microbatches;
        if (!test.is_served()) continue;
        SCOPED_TRACE(fmt::format("{} devices, width {}", devices, width));
        check(lower(test.make()), width);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Schedules, CommunicatorsOf,
                         ::testing::ValuesIn(testing::schedule_names()), testing::test_name);

TEST_P(CommunicatorsOf, AreMadeInOneOrderByAll) {
  std::size_t programs = 0;
  for_each_program([&](const Program& program, std::uint16_t width) {
    ++programs;
    const CommunicatorPlans plans(program, width);
    const std::size_t devices = std::size_t{program.placement().devices} * width;
    const Lists lists = lists_of(plans, devices);
    EXPECT_EQ(left_unmade(plans, lists), 0u);
    for (const auto& list : lists) EXPECT_TRUE(std::ranges::is_sorted(list));
  });
  EXPECT_GT(programs, 0u);
}

TEST_P(CommunicatorsOf, AreOneALaneAndPair) {
  for_each_program([](const Program& program, std::uint16_t width) {
    const CommunicatorPlans plans(program, width);
    const std::uint16_t devices = program.placement().devices;
    std::map<std::size_t, std::set<std::pair<std::uint16_t, LaneId>>> taken;  // by transfers
    for (std::uint16_t pipeline = 0; pipeline < width; ++pipeline) {
      for (const InstructionId id : program.order()) {
        const Instruction& instruction = program[id];
        const OpKind kind = instruction.op.kind;
        if (!is_transfer(kind) || moves_stash(kind)) continue;
        const auto lanes = program.lanes(instruction);
        ASSERT_EQ(lanes.size(), 2u);
        const auto plan = plans.of(pipeline, id);
        ASSERT_TRUE(plan) << describe(program, id);
        std::vector<DeviceId> ends;
        for (const LaneId lane : lanes) {
          ends.push_back(id_at<DeviceId>(std::size_t{pipeline} * devices +
                                         index(program.lanes()[lane].device)));
        }
        EXPECT_EQ(plans.all()[*plan].devices, ends);
        EXPECT_FALSE(plans.all()[*plan].sums);
        taken[*plan].insert({pipeline, lanes.front()});
      }
    }
    for (const auto& [plan, lanes] : taken) EXPECT_EQ(lanes.size(), 1u) << plans.all()[plan].name;
    std::set<std::vector<DeviceId>> groups;
    for (const CommunicatorPlan& plan : plans.all()) {
      if (!plan.sums) continue;
      EXPECT_TRUE(groups.insert(plan.devices).second) << plan.name << " stands twice";
      EXPECT_GE(plan.devices.size(), 2u);
      EXPECT_TRUE(std::ranges::adjacent_find(plan.devices, std::greater_equal<>()) ==
                  plan.devices.end());
    }
  });
}

TEST_P(CommunicatorsOf, AreThereForEverySumOverSeveralDevices) {
  for_each_program([](const Program& program, std::uint16_t width) {
    const CommunicatorPlans plans(program, width);
    for (const InstructionId id : program.order()) {
      const OpKind kind = program[id].op.kind;
      if (kind != OpKind::reduce_gradient && kind != OpKind::reduce_tied) continue;
      const std::size_t here = program.lanes(program[id]).size();
      const std::size_t members = kind == OpKind::reduce_gradient ? here * width : here;
      for (std::uint16_t pipeline = 0; pipeline < width; ++pipeline) {
        const auto plan = plans.of(pipeline, id);
        ASSERT_EQ(plan.has_value(), members > 1) << describe(program, id);
        if (!plan) continue;
        EXPECT_EQ(plans.all()[*plan].devices.size(), members);
        EXPECT_TRUE(plans.all()[*plan].sums);
      }
    }
  });
}

// Control: orders of each device's own, such as neighbours first from above and then from below.
TEST(Communicators, WaitForEverInOrdersOfTheirOwn) {
  TrainingCase test{.schedule = "1f1b", .devices = 4};
  const Program program = lower(test.make());
  const CommunicatorPlans plans(program, 1);
  Lists lists = lists_of(plans, 4);
  EXPECT_EQ(left_unmade(plans, lists), 0u);
  for (std::size_t device = 0; device < 4; device += 2) std::ranges::reverse(lists[device]);
  EXPECT_GT(left_unmade(plans, lists), 0u);
}

TEST(Communicators, AreNamedForErrors) {
  TrainingCase test{.schedule = "1f1b", .devices = 2};
  test.width = 2;
  const CommunicatorPlans plans(lower(test.make()), 2);
  std::vector<std::string> names;
  for (const CommunicatorPlan& plan : plans.all()) names.push_back(plan.name);
  EXPECT_THAT(names, ::testing::ElementsAre("send activation 0→1", "send gradient 1→0",
                                            "send activation 2→3", "send gradient 3→2", "sum 0 1",
                                            "sum 2 3", "sum 0 2", "sum 1 3"));
}

}  // namespace
}  // namespace tandem
