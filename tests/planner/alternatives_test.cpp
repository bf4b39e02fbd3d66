// What `check` offers for a plan that doesn't fit.

#include "planner/alternatives.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lower.h"
#include "planner/search.h"
#include "planner/stage_memory.h"
#include "tests/planner/synthetic.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Plan example(std::string schedule) {
  Plan plan;
  plan.model = testing::small_model(3);
  plan.schedule = std::move(schedule);
  plan.depth = 2;
  plan.microbatch_size = 4;
  plan.microbatches = 8;
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

std::vector<std::string> texts(const std::vector<Alternative>& alternatives) {
  std::vector<std::string> all;
  for (const Alternative& one : alternatives) {
    std::string text;
    for (const std::string& change : one.changes) text += (text.empty() ? "" : ", ") + change;
    all.push_back(text);
  }
  return all;
}

TEST(NearestFits, OffersEachSingleChangeThatHelps) {
  const Plan plan = example("gpipe");
  const std::vector<Alternative> found = nearest_fits(plan, peak(plan) * 3 / 4);
  // Smaller microbatches are as many more, and GPipe holds them all.
  EXPECT_THAT(texts(found), ElementsAre("recompute full", "schedule zb-h2", "3 stages"));
  const Plan other = example("1f1b");
  // Two stages hold few of them: only smaller ones help.
  EXPECT_THAT(texts(nearest_fits(other, peak(other) * 3 / 4)), ElementsAre("microbatches 2 x 16"));
}

TEST(NearestFits, WhatItOffersFitsAndKeepsTheGlobalBatch) {
  for (const char* schedule : {"gpipe", "1f1b", "2bw", "model-parallel"}) {
    const Plan plan = example(schedule);
    for (const int share : {95, 80, 60, 40, 30}) {
      const Bytes limit = peak(plan) * share / 100;
      for (const Alternative& one : nearest_fits(plan, limit)) {
        EXPECT_LE(one.peak_bytes, limit);
        EXPECT_EQ(one.peak_bytes, peak(one.plan));
        EXPECT_EQ(one.plan.microbatch_size * one.plan.microbatches, 32);
        EXPECT_EQ(one.plan.stages.size(), one.plan.depth);
        EXPECT_EQ(one.changes.size(), nearest_fits(plan, limit).front().changes.size());
      }
    }
  }
}

TEST(NearestFits, GivesUpExtraMicrobatchesFirst) {
  Plan plan = example("2bw");
  plan.extra_in_flight = 2;
  Plan without = plan;
  without.extra_in_flight = 0;
  EXPECT_THAT(texts(nearest_fits(plan, std::max(peak(without), peak(plan) - 1))),
              Contains("no extra in flight"));
}

TEST(NearestFits, AnotherCutMayBeEnough) {
  Plan plan = example("1f1b");
  plan.stages = {{0, 7}, {7, 8}};
  EXPECT_THAT(texts(nearest_fits(plan, peak(plan) * 9 / 10)), Contains("another cut"));
}

TEST(NearestFits, CombinesChangesWhenOneIsNotEnough) {
  const Plan plan = example("gpipe");
  const std::vector<Alternative> found = nearest_fits(plan, peak(plan) / 4);
  ASSERT_FALSE(found.empty());
  for (const Alternative& one : found) EXPECT_GE(one.changes.size(), 2U);
}

TEST(NearestFits, NothingFitsInAByte) { EXPECT_THAT(nearest_fits(example("gpipe"), 1), IsEmpty()); }

}  // namespace
}  // namespace tandem
