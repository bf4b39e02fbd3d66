// What the search chooses, what it says of it, and what it says when there is nothing to choose.

#include "planner/search/search.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "planner/search/explain.h"
#include "planner/search/stage_memory.h"
#include "tests/core/error_of.h"
#include "tests/planner/synthetic.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::small_request;

TEST(Search, FasterPipelinesWithoutABubbleWin) {
  // 11 is prime to 3: no width of three pipelines shares such a batch.
  const PlanResult result = find_plans(small_request(3, 11));
  ASSERT_EQ(result.ranked.size(), 10U);
  // Without a bubble either, and the two chunks of a device share the layers out more evenly.
  EXPECT_EQ(result.ranked.front().plan.schedule, "zbv");
  EXPECT_EQ(result.ranked.front().plan.request.devices, 3);
  ASSERT_TRUE(result.one_device);
  EXPECT_LT(result.one_device->plan.predicted.samples_per_s,
            result.ranked.front().plan.predicted.samples_per_s);
  for (std::size_t i = 1; i < result.ranked.size(); ++i) {
    EXPECT_LE(result.ranked[i - 1].period, result.ranked[i].period);
  }
}

TEST(Search, VanillaOnlyLeavesOutDelayedWeights) {
  PlanRequest request = small_request(3, 12);
  request.vanilla_only = true;
  const PlanResult result = find_plans(request);
  ASSERT_FALSE(result.ranked.empty());
  for (const Candidate& candidate : result.ranked) {
    EXPECT_EQ(candidate.weights, WeightSemantics::vanilla);
  }
}

TEST(Search, CorrectedDelayLeavesOutWhatIsNotLate) {
  PlanRequest request = small_request(3, 12);
  request.schedules = {"1f1b", "2bw"};
  const PlanResult plain = find_plans(request);
  request.optimizer.correction = DelayCorrection::error_feedback;
  const PlanResult result = find_plans(request);
  ASSERT_FALSE(result.ranked.empty());
  for (const Candidate& candidate : result.ranked) {
    EXPECT_EQ(candidate.plan.schedule, "2bw");
    EXPECT_EQ(candidate.plan.optimizer, request.optimizer);
    Bytes parameters = 0;
    for (const MemoryByClass& memory : candidate.memory) parameters += memory.weights / 4;
    Bytes states = 0;
    for (const MemoryByClass& memory : candidate.memory) states += memory.optimizer / 4;
    EXPECT_EQ(states, optimizer_states(request.optimizer) * parameters);
  }
  const auto refused = [](const PlanResult& of) {
    return std::ranges::any_of(of.rejected, [](const Rejected& one) {
      return one.what == "1f1b" && one.cause == RejectCause::schedule &&
             one.reason.find("one update late") != std::string::npos;
    });
  };
  EXPECT_TRUE(refused(result));
  EXPECT_FALSE(refused(plain));
}

TEST(Search, ThePlanIsComplete) {
  PlanRequest request = small_request(2, 8);
  request.optimizer = OptimizerKind::momentum;
  const Candidate best = find_plans(request).ranked.front();
  EXPECT_EQ(best.plan.model, request.model);
  EXPECT_EQ(best.plan.optimizer, OptimizerKind::momentum);
  EXPECT_EQ(best.plan.stages.size(), best.plan.request.devices);
  EXPECT_EQ(best.plan.stages.front().first, 0);
  EXPECT_EQ(best.plan.stages.back().last, 6);
  EXPECT_EQ(best.plan.request.width * best.plan.microbatch_size * best.plan.request.microbatches,
            8);
  EXPECT_DOUBLE_EQ(best.plan.predicted.period_s, best.period.seconds());
  EXPECT_DOUBLE_EQ(best.plan.predicted.samples_per_s, 8.0 / best.period.seconds());
  ASSERT_EQ(best.plan.predicted.peak_bytes.size(), best.memory.size());
  Bytes fullest = 0;
  for (const DeviceId device : ids(best.memory)) {
    EXPECT_EQ(best.plan.predicted.peak_bytes[index(device)], best.memory[device].total());
    fullest = std::max(fullest, best.memory[device].total());
  }
  EXPECT_EQ(best.peak_bytes, fullest);
}

TEST(Search, AnswersTheSameTwice) {
  const PlanRequest request = small_request(4, 16, 4);
  const PlanResult first = find_plans(request), second = find_plans(request);
  ASSERT_EQ(first.ranked.size(), second.ranked.size());
  for (std::size_t i = 0; i < first.ranked.size(); ++i) {
    EXPECT_EQ(describe(first.ranked[i].plan), describe(second.ranked[i].plan));
    EXPECT_EQ(first.ranked[i].plan.stages, second.ranked[i].plan.stages);
  }
}

TEST(Search, OnOneDeviceTheSimplestScheduleWithTheLeastMemoryWins) {
  const PlanResult result = find_plans(small_request(1, 8));
  const Plan& plan = result.ranked.front().plan;
  EXPECT_EQ(plan.schedule, "model-parallel");
  EXPECT_EQ(plan.microbatch_size, 2);  // less fixed cost a sample
  EXPECT_EQ(plan.request.recompute, Recompute::none);
}

TEST(Search, LessMemoryChangesTheChoiceAndTheCut) {
  PlanRequest request = small_request(2, 12, 6);
  request.schedules = {"2bw"};
  const Candidate free = find_plans(request).ranked.front();
  request.memory = free.peak_bytes - 1;
  const PlanResult limited = find_plans(request);
  ASSERT_FALSE(limited.ranked.empty());
  EXPECT_LE(limited.ranked.front().peak_bytes, *request.memory);
  EXPECT_GE(limited.ranked.front().period, free.period);
  // The same shape still fits, with layers moved off the fullest device.
  const auto same = std::find_if(
      limited.ranked.begin(), limited.ranked.end(),
      [&](const Candidate& candidate) { return describe(candidate.plan) == describe(free.plan); });
  ASSERT_NE(same, limited.ranked.end());
  EXPECT_NE(same->plan.stages, free.plan.stages);
  EXPECT_GE(same->slowest, free.slowest);
}

TEST(Search, RecomputationIsTheWayOutWhenActivationsAreTooMany) {
  PlanRequest request = small_request(2, 12);
  request.schedules = {"gpipe"};
  request.profile = testing::profile_of(request.model, {1}, testing::even_speeds());
  const Candidate free = find_plans(request).ranked.front();
  EXPECT_EQ(free.plan.request.recompute, Recompute::none);
  request.memory = free.peak_bytes / 2;
  const PlanResult limited = find_plans(request);
  ASSERT_FALSE(limited.ranked.empty());
  EXPECT_EQ(limited.ranked.front().plan.request.recompute, Recompute::full);
}

TEST(Search, RejectionsForMemoryNameTheNearestCut) {
  PlanRequest request = small_request(1, 2);
  request.schedules = {"gpipe"};
  request.profile = testing::profile_of(request.model, {2}, testing::even_speeds());
  const Candidate free = find_plans(request).ranked.front();
  request.memory = free.peak_bytes - 100;
  const PlanResult result = find_plans(request);
  ASSERT_EQ(result.rejected.size(), 1U + (result.ranked.empty() ? 1U : 0U));
  const Rejected& rejected = result.rejected.front();
  EXPECT_EQ(rejected.cause, RejectCause::memory);
  EXPECT_EQ(rejected.what, "gpipe, 1 stage, microbatches 2 x 1");
  ASSERT_TRUE(rejected.miss);
  EXPECT_EQ(rejected.miss->excess, 100);
  EXPECT_EQ(rejected.miss->needed, free.peak_bytes);
  EXPECT_EQ(rejected.reason, explain(*rejected.miss));
}

TEST(Search, ACutOfTheLeastMemoryIsTheNearestMiss) {
  PlanRequest request = small_request(3, 12, 3);
  request.schedules = {"1f1b"};
  request.memory = 1;
  const PlanResult result = find_plans(request);
  EXPECT_TRUE(result.ranked.empty());
  EXPECT_FALSE(result.one_device);
  // One byte above the nearest miss of all: something fits, and below it nothing does.
  Bytes least = result.rejected.front().miss->needed;
  for (const Rejected& one : result.rejected) least = std::min(least, one.miss->needed);
  request.memory = least;
  EXPECT_EQ(find_plans(request).ranked.size(), 1U);
  request.memory = least - 1;
  EXPECT_TRUE(find_plans(request).ranked.empty());
}

TEST(Search, SaysWhatIsNearestWhenNothingFits) {
  PlanRequest request = small_request(2, 4);
  request.memory = 20'000;
  const PlanResult result = find_plans(request);
  ASSERT_TRUE(result.ranked.empty());
  EXPECT_EQ(
      explain_infeasible(request, result),
      "no plan fits in 19.5 KiB a device: 152 were tried; the nearest, model-parallel, 2 stages, "
      "microbatches 1 x 4, needs 74.0 KiB on device 1, 54.5 KiB too much (largest: optimizer, "
      "29.9 KiB)");
}

TEST(Search, SaysAllReasonsWhenNothingIsPossible) {
  PlanRequest request = small_request(2, 5);
  request.profile = testing::profile_of(request.model, {2, 4}, testing::even_speeds());
  const PlanResult result = find_plans(request);
  ASSERT_TRUE(result.ranked.empty());
  EXPECT_EQ(explain_infeasible(request, result),
            "no plan for 2 devices and a global batch of 5 samples: microbatch size 2: a global "
            "batch of 5 samples is no multiple of it (and 1 more)");
}

TEST(Search, GroupsRejectionsByCause) {
  PlanRequest request = small_request(8, 12);
  request.schedules = {"model-parallel", "gpipe", "1f1b", "2bw"};
  request.profile = testing::profile_of(request.model, {1, 5, 7}, testing::even_speeds());
  request.memory = 20'000;
  const std::vector<RejectedGroup> groups = group(find_plans(request).rejected);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].cause, RejectCause::not_divisible);
  EXPECT_EQ(groups[0].count, 2U);
  EXPECT_EQ(groups[1].cause, RejectCause::few_layers);
  EXPECT_EQ(groups[2].cause, RejectCause::memory);
  EXPECT_EQ(groups[2].count, search_space(request).shapes.size());
  for (const Rejected& one : find_plans(request).rejected) {
    if (!one.miss) continue;
    EXPECT_LE(groups[2].nearest.miss->excess, one.miss->excess);
  }
}

TEST(Search, ExplainsItsChoice) {
  PlanRequest request = small_request(2, 8);
  request.schedules = {"model-parallel", "gpipe", "1f1b", "2bw"};
  EXPECT_THAT(explain_choice(request, find_plans(request)),
              ElementsAre(AllOf(HasSubstr("2bw, 2 stages, microbatches 2 x 4: 410.5 samples/s"),
                                HasSubstr("device 0"), HasSubstr("19.49 ms"), HasSubstr(" 0.0 %")),
                          AllOf(HasSubstr("2bw, 2 stages, microbatches 1 x 8"), HasSubstr("9.1 %"),
                                HasSubstr("1.768 ms")),
                          AllOf(HasSubstr("234.8 samples/s"), HasSubstr("1.75 times")),
                          HasSubstr("delayed by one")));
  request.vanilla_only = true;
  EXPECT_THAT(explain_choice(request, find_plans(request)),
              ElementsAre(AllOf(HasSubstr("1f1b, 2 stages, microbatches 2 x 4: 361.0 samples/s"),
                                HasSubstr("22.16 ms"), HasSubstr("19.49 ms"), HasSubstr("12.1 %")),
                          AllOf(HasSubstr("3.0 %"), HasSubstr("667.6 us"), HasSubstr("1.768 ms"),
                                HasSubstr("1.1 ms")),
                          HasSubstr("1.54 times")));
}

TEST(Search, RefusesAProfileOfAnotherModel) {
  PlanRequest request = small_request(2, 8);
  request.model.width = 32;
  EXPECT_THAT(
      error_of([&] { find_plans(request); }),
      HasSubstr("the profile measured model \"small\" (gpt2, width 16, 2 heads, sequence 8, "
                "vocabulary 32), not \"small\" (gpt2, width 32"));
}

TEST(Search, RefusesTimesBeyondTheClock) {
  const auto plan = [](int samples) {
    PlanRequest request = small_request(2, samples);
    for (LayerCost& row : request.profile.layers) row.forward = std::chrono::hours(24);
    return find_plans(request);
  };
  EXPECT_THAT(error_of([&] { plan(40'000); }), HasSubstr("too long to count in nanoseconds"));
  // A century of one device, two of both: recomputation has forwards twice.
  EXPECT_FALSE(plan(3'000).ranked.empty());
}

TEST(Period, ComparesExactly) {
  const auto period = [](std::int64_t cycle, std::int64_t batches) {
    return Period{Duration(cycle), batches};
  };
  EXPECT_EQ(period(6, 3), period(2, 1));
  EXPECT_LT(period(5, 3), period(2, 1));
  constexpr std::int64_t kLong = std::int64_t{1} << 61;
  EXPECT_GT(period(kLong + 1, 3), period(kLong, 3));
  EXPECT_LT(period(kLong, 1'000'003), period(kLong, 1'000'002));
  EXPECT_LT(period(3'000'001, 3'000'002), period(3'000'002, 3'000'003));
}

TEST(StageMemory, ItsTotalIsThatOfTheClasses) {
  const PlanRequest request = small_request(4, 12);
  RangeBytes bytes(request.model, request.optimizer);
  for (const Candidate& candidate : find_plans(request).ranked) {
    const Program program = lower(make_schedule(candidate.plan));
    if (program.placement().replicas() != program.placement().devices) continue;
    const SlotCounts slots = count_slots(program);
    for (const ReplicaId replica : ids(slots)) {
      const StageBytes& of =
          bytes.of(candidate.plan.stages[index(replica)], candidate.plan.microbatch_size,
                   candidate.plan.request.recompute);
      EXPECT_EQ(stage_total(slots[replica], of), candidate.memory.rows()[index(replica)].total());
    }
  }
}

TEST(StageMemory, NamesTheLargestClass) {
  EXPECT_EQ(largest_class({.weights = 3, .versions = 9, .gradients = 9}).name, "versions");
  EXPECT_EQ(largest_class({.buffers = 1}).bytes, 1);
}

}  // namespace
}  // namespace tandem
