// What `check` offers for a plan that doesn't fit.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "planner/search/nearest_fits.h"
#include "planner/search/stage_memory.h"
#include "tests/planner/synthetic.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

Plan example(std::string schedule) {
  Plan plan;
  plan.model = testing::small_model(3);
  plan.schedule = std::move(schedule);
  plan.request.devices = 2;
  plan.microbatch_size = 4;
  plan.request.microbatches = 8;
  plan.stages = {{0, 4}, {4, 8}};
  return plan;
}

Bytes peak(const Plan& plan) {
  const Program program =
      lower(make_schedule(find_schedule(plan.schedule), schedule_request(plan)));
  RangeBytes bytes(plan.model, plan.optimizer);
  Bytes most = 0;
  for (const MemoryByClass& of : device_memory(program, count_slots(program), plan, bytes)) {
    most = std::max(most, of.total());
  }
  return most;
}

std::vector<LayerRange> least_memory_stages(const Plan& plan) {
  const Program program =
      lower(make_schedule(find_schedule(plan.schedule), schedule_request(plan)));
  RangeBytes bytes(plan.model, plan.optimizer);
  return least_memory_cut(count_slots(program), plan, bytes);
}

using Changes = std::vector<FitChange>;

std::vector<Changes> changes(const std::vector<NearFit>& fits) {
  std::vector<Changes> all;
  for (const NearFit& one : fits) all.push_back(one.changes);
  return all;
}

TEST(NearestPlanFits, OffersEachSingleChangeThatHelps) {
  const Plan plan = example("gpipe");
  const std::vector<Changes> found = changes(nearest_fits(plan, peak(plan) * 3 / 4));
  // Smaller microbatches are as many more, and GPipe holds them all.
  for (const FitChange one : {FitChange::schedule, FitChange::group, FitChange::recompute,
                              FitChange::depth, FitChange::global_batch}) {
    EXPECT_THAT(found, Contains(Changes{one})) << static_cast<int>(one);
  }
  const Plan other = example("1f1b");
  // Two stages hold few of them: smaller ones help.
  EXPECT_THAT(changes(nearest_fits(other, peak(other) * 3 / 4)),
              Contains(Changes{FitChange::microbatch_size}));
}

TEST(NearestPlanFits, WhatItOffersFitsAndKeepsTheGlobalBatch) {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "model-parallel"}) {
    const Plan plan = example(schedule);
    for (const int share : {95, 80, 60, 40, 30}) {
      const Bytes limit = peak(plan) * share / 100;
      std::size_t before = 1;
      for (const NearFit& one : nearest_fits(plan, limit)) {
        Plan made = one.request.plan;
        if (made.stages.size() != made.request.devices || one.request.cut != StageCut::given)
          made.stages = least_memory_stages(made);
        EXPECT_LE(one.peak_bytes, limit);
        EXPECT_EQ(one.peak_bytes, peak(made));
        if (std::ranges::count(one.changes, FitChange::global_batch) == 0) {
          EXPECT_EQ(made.microbatch_size * made.request.microbatches, 32);
        }
        EXPECT_GE(one.changes.size(), before);
        before = one.changes.size();
      }
    }
  }
}

TEST(NearestPlanFits, GivesUpExtraMicrobatches) {
  Plan plan = example("2bw");
  plan.request.extra_in_flight = 2;
  Plan without = plan;
  without.request.extra_in_flight = 0;
  EXPECT_THAT(changes(nearest_fits(plan, std::max(peak(without), peak(plan) - 1))),
              Contains(Changes{FitChange::extra_in_flight}));
}

TEST(NearestPlanFits, AnotherCutMayBeEnough) {
  Plan plan = example("1f1b");
  plan.stages = {{0, 7}, {7, 8}};
  EXPECT_THAT(changes(nearest_fits(plan, peak(plan) * 9 / 10)), Contains(Changes{FitChange::cut}));
}

TEST(NearestPlanFits, CombinesChangesWhenOneIsNotEnough) {
  const Plan plan = example("gpipe");
  const std::vector<NearFit> found = nearest_fits(plan, peak(plan) / 8);
  ASSERT_FALSE(found.empty());
  for (const NearFit& one : found) EXPECT_GE(one.changes.size(), 2U);
}

/// Its own stages, so that it can be followed as it stands; of several stages a device, too.
TEST(NearestPlanFits, SaysTheStages) {
  Plan several = example("interleaved");
  several.request.chunks = 2;
  several.stages = {{0, 2}, {2, 4}, {4, 6}, {6, 8}};
  for (const Plan& plan : {example("gpipe"), example("1f1b"), several}) {
    const std::vector<NearFit> found = nearest_fits(plan, peak(plan) * 3 / 4);
    EXPECT_THAT(found, Not(IsEmpty())) << plan.schedule;
    for (const NearFit& one : found) {
      EXPECT_EQ(one.request.plan.stages.size(), stage_count(one.request.plan));
      EXPECT_EQ(peak(one.request.plan), one.peak_bytes);
    }
  }
}

/// Replicas of a stage in one pipeline, as of Chimera: no cut of least memory is known for them.
TEST(NearestPlanFits, OffersNothingWhereStagesHaveReplicas) {
  Plan plan = example("chimera");
  EXPECT_THAT(nearest_fits(plan, peak(plan) * 3 / 4), IsEmpty());
}

TEST(NearestPlanFits, NothingFitsInAByte) {
  EXPECT_THAT(nearest_fits(example("gpipe"), 1), IsEmpty());
}

}  // namespace
}  // namespace tandem
