// The search space: every shape once, every rejection with its whole reason.

#include "planner/search/candidates.h"

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/slice_lengths.h"
#include "planner/search/search.h"
#include "tests/core/error_of.h"
#include "tests/planner/synthetic.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::small_request;
using ::testing::UnorderedElementsAre;

std::vector<std::string> reasons(const SearchSpace& space) {
  std::vector<std::string> texts;
  for (const Rejected& one : space.rejected) {
    texts.push_back(std::string(name(one.cause)) + " | " + one.what + " | " + one.reason);
  }
  return texts;
}

std::vector<std::string> described(const PlanRequest& request, const SearchSpace& space) {
  std::vector<std::string> texts;
  for (const Shape& shape : space.shapes) texts.push_back(describe(plan_of(request, shape, 0)));
  return texts;
}

TEST(SearchSpace, HoldsEachTrainableScheduleDepthSizeAndRecomputation) {
  PlanRequest request = small_request(3, 8);
  request.schedules = {"model-parallel", "gpipe", "1f1b", "2bw"};
  const SearchSpace space = search_space(request);
  EXPECT_THAT(space.rejected, IsEmpty());
  EXPECT_EQ(space.shapes.size(), 4U * 3U * 2U * 2U);
  const std::vector<std::string> texts = described(request, space);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  EXPECT_EQ(texts.front(), "model-parallel, 1 stage, microbatches 1 x 8");
  EXPECT_EQ(texts.back(), "2bw, 3 stages, microbatches 2 x 4, recompute full");
}

TEST(SearchSpace, FollowsTheRegistry) {
  PlanRequest request = small_request(4, 8);
  std::vector<const ScheduleTraits*> found, searched;
  for (const Shape& shape : search_space(request).shapes) {
    if (found.empty() || found.back() != shape.schedule) found.push_back(shape.schedule);
  }
  for (const ScheduleTraits& row : schedules()) {
    // Stashed and latest weights, evictions, caps and slices are for those who ask; pipelines of
    // several copies are not searched.
    if (row.weights == WeightSemantics::stashed || row.weights == WeightSemantics::latest) continue;
    if (row.replicas_per_stage > 1 || row.evicts || !row.whole.empty()) continue;
    if (row.name == "zb-auto" || row.name == "v-adaptive" || row.name == "search") continue;
    searched.push_back(&row);
  }
  EXPECT_EQ(found, searched);
}

TEST(SearchSpace, OnlyTwoBufferedWeightsTakeExtraAndOnlyWhereTheyCanUseIt) {
  PlanRequest request = small_request(3, 12);
  for (const Shape& shape : search_space(request).shapes) {
    if (shape.schedule->name != "2bw" || shape.depth == 1) {
      EXPECT_THAT(shape.extras, ElementsAre(0));
    } else if (shape.depth == 3) {
      EXPECT_THAT(shape.extras, ElementsAre(0, 1, 2, 3, 4));
    } else {
      EXPECT_THAT(shape.extras, ElementsAre(0, 1, 2));
    }
  }
  request = small_request(3, 4);  // four microbatches of 3 stages leave room for 2 extra
  request.profile = testing::profile_of(request.model, {1}, testing::even_speeds());
  EXPECT_THAT(search_space(request).shapes.back().extras, ElementsAre(0, 1, 2));
}

TEST(SearchSpace, HoldsBothWaysOfBackwardsWhereAScheduleHasThem) {
  PlanRequest request = small_request(2, 4);
  request.model.tied = false;
  request.profile = testing::profile_of(request.model, {1}, testing::even_speeds());
  request.schedules = {"paci", "timeprest"};
  EXPECT_THAT(described(request, search_space(request)),
              ElementsAre("paci, 1 stage, microbatches 1 x 4", "paci, 2 stages, microbatches 1 x 4",
                          "timeprest, 1 stage, microbatches 1 x 4",
                          "timeprest, 1 stage, microbatches 1 x 4, single backwards",
                          "timeprest, 2 stages, microbatches 1 x 4",
                          "timeprest, 2 stages, microbatches 1 x 4, single backwards"));
}

TEST(SearchSpace, ReplicatesPipelinesWhereDevicesAndMicrobatchesGoRound) {
  PlanRequest request = small_request(6, 12);
  request.profile = testing::profile_of(request.model, {1}, testing::even_speeds());
  request.schedules = {"1f1b"};
  std::set<std::tuple<int, int, int>> found;
  for (const Shape& shape : search_space(request).shapes) {
    found.insert({shape.depth, shape.width, shape.microbatches});
  }
  // One device's replicas are data parallelism.
  EXPECT_EQ(found, (std::set<std::tuple<int, int, int>>{{1, 1, 12},
                                                        {2, 1, 12},
                                                        {2, 2, 6},
                                                        {2, 3, 4},
                                                        {3, 1, 12},
                                                        {3, 2, 6},
                                                        {4, 1, 12},
                                                        {5, 1, 12},
                                                        {6, 1, 12}}));
  request.global_batch = 9;
  for (const Shape& shape : search_space(request).shapes) EXPECT_NE(shape.width, 2);
}

TEST(SearchSpace, SaysWhyAMicrobatchSizeIsOut) {
  PlanRequest request = small_request(1, 8);
  request.profile = testing::profile_of(request.model, {1, 2, 3, 16}, testing::even_speeds());
  request.profile.layers.erase(request.profile.layers.begin() + 5);  // attention of size 2
  request.schedules = {"gpipe"};
  const SearchSpace space = search_space(request);
  EXPECT_EQ(space.shapes.size(), 2U);
  EXPECT_THAT(
      reasons(space),
      ElementsAre(
          "not measured | microbatch size 2 | the profile has no layer \"attention\" of it",
          "global batch not divisible | microbatch size 3 | a global batch of 8 samples is "
          "no multiple of it",
          "global batch not divisible | microbatch size 16 | a global batch of 8 samples is "
          "no multiple of it"));
}

TEST(SearchSpace, SaysWhyAScheduleIsOut) {
  PlanRequest request = small_request(2, 1);
  request.profile = testing::profile_of(request.model, {1}, testing::even_speeds());
  request.schedules = {"2bw"};
  EXPECT_THAT(
      reasons(search_space(request)),
      ElementsAre(
          "not possible with the schedule | 2bw, 2 stages, microbatches 1 x 1 | 2bw needs at least "
          "2 microbatches a batch for 2 devices and 0 extra in flight, found 1: with fewer, a "
          "forward would need weights that do not exist yet (m >= max(p, p - 1 + extra))",
          "not possible with the schedule | 2bw, 2 stages, microbatches 1 x 1, recompute full | "
          "2bw needs at least 2 microbatches a batch for 2 devices and 0 extra in flight, found 1: "
          "with fewer, a forward would need weights that do not exist yet (m >= max(p, p - 1 + "
          "extra))"));
}

TEST(SearchSpace, SaysWhatItDoesNotSearch) {
  PlanRequest request = small_request(1, 2);
  request.schedules = {"2bw", "flush", "chimera"};
  request.vanilla_only = true;
  const SearchSpace space = search_space(request);
  EXPECT_THAT(
      reasons(space),
      ElementsAre("several copies | chimera | a pipeline holds several copies of the model: it can "
                  "be simulated and trained by a plan written by hand, not planned",
                  "delayed weights | 2bw | its weights are delayed by one, and only vanilla "
                  "ones were asked for"));
  for (const Shape& shape : space.shapes) EXPECT_EQ(shape.schedule->name, "1f1b");
}

TEST(SearchSpace, CutsSequencesAsTheProfileDoes) {
  PlanRequest request = small_request(2, 8);
  request.schedules = {"seq1f1b"};
  const auto plan_of_first = [&] {
    return plan_of(request, search_space(request).shapes.front(), 0);
  };
  EXPECT_EQ(plan_of_first().request.slices.count, 1) << "of whole sequences";
  const std::int32_t tokens = request.model.sequence;
  request.profile.slices = {{.tokens = tokens - 1, .before = 0, .layers = {}},
                            {.tokens = 1, .before = tokens - 1, .layers = {}}};
  EXPECT_EQ(plan_of_first().request.slices.lengths, (std::vector<std::int32_t>{tokens - 1, 1}));
  EXPECT_THAT(describe(plan_of_first()), HasSubstr(fmt::format("slices of {},1", tokens - 1)));
  request.schedules = {"1f1b"};
  EXPECT_EQ(plan_of_first().request.slices.count, 1);
}

TEST(SearchSpace, ProposesSlicesUnaskedWhereTheProfileTimesThem) {
  PlanRequest request = small_request(2, 8);
  const auto slicings = [&] {
    std::set<std::string> found;
    for (const Shape& shape : search_space(request).shapes) {
      if (!shape.schedule->whole.empty()) found.insert(name(shape.slices));
    }
    return found;
  };
  EXPECT_THAT(slicings(), IsEmpty());
  const std::int32_t tokens = request.model.sequence;
  ASSERT_EQ(tokens, 8);
  for (const SequencePart part : parts_of({3, 3, 2})) {
    request.profile.slices.push_back(
        {.tokens = part.tokens, .before = part.before, .layers = request.profile.layers});
    for (LayerCost& row : request.profile.slices.back().layers) {
      for (const auto time : {&LayerCost::forward, &LayerCost::backward_input,
                              &LayerCost::backward_weight, &LayerCost::backward})
        row.*time = row.*time * part.tokens / tokens;
    }
  }
  // As timed, and 2 to 8 equal ones: 16 would be shorter than half of the shortest.
  EXPECT_THAT(slicings(), ::testing::IsSupersetOf({"3,3,2", "4,4", "2,2,2,2", "1,1,1,1,1,1,1,1"}));
  const PlanResult result = find_plans(request);
  EXPECT_GT(result.shapes, 0u);
  std::int64_t again = 0;  // of slices alone: of whole sequences nothing must stay meanwhile
  for (const Shape& shape : search_space(request).shapes) {
    if (shape.recompute != Recompute::stage) continue;
    ++again;
    EXPECT_GT(shape.slices.count, 1);
  }
  EXPECT_GT(again, 0);
}

TEST(SearchSpace, MoreStagesThanLayersAreOut) {
  const auto reasons_for = [](PlanRequest request) {
    request.schedules = {"gpipe", "1f1b", "interleaved"};  // which take any number of microbatches
    return reasons(search_space(request));
  };
  EXPECT_THAT(reasons_for(small_request(7, 12)),
              ElementsAre("more stages than layers | 7 stages | more stages than layers: the model "
                          "has 6"));
  EXPECT_THAT(reasons_for(small_request(9, 16, 3)),
              ElementsAre("more stages than layers | 9 stages | more stages than layers: the model "
                          "has 8"));
  EXPECT_THAT(reasons_for(small_request(16, 32)),
              ElementsAre("more stages than layers | 7 to 16 stages | more stages than layers: the "
                          "model has 6"));
}

TEST(SearchSpace, AVeryLongBatchIsOut) {
  PlanRequest request = small_request(5, 65536);
  request.schedules = {"gpipe"};
  const auto texts = reasons(search_space(request));
  ASSERT_EQ(texts.size(), 10U);
  EXPECT_EQ(texts[0],
            "too long to simulate | gpipe, 1 stage, microbatches 1 x 65536 | 65536 microbatches on "
            "1 stages are more than the planner simulates (at most 65535 a batch, 262144 on all "
            "stages)");
}

TEST(SearchSpace, RefusesWhatItWouldTakeMinutesFor) {
  EXPECT_EQ(error_of([] { search_space(small_request(1, 8, 1024)); }),
            "the model has 2050 layers; the planner cuts at most 2048");
  EXPECT_EQ(error_of([] { search_space(small_request(257, 8)); }),
            "the planner takes 1 to 256 devices, found 257");
  PlanRequest request = small_request(1, 1);
  request.schedules = {"gpip"};
  EXPECT_THAT(error_of<UsageError>([&] { search_space(request); }), HasSubstr("\"gpip\""));
}

TEST(SearchSpace, DescribesAPlanInOneLine) {
  Plan plan;
  plan.schedule = "2bw";
  plan.request.devices = 4;
  plan.microbatch_size = 2;
  plan.request.microbatches = 8;
  plan.request.recompute = Recompute::full;
  plan.request.extra_in_flight = 3;
  EXPECT_EQ(describe(plan), "2bw, 4 stages, microbatches 2 x 8, recompute full, 3 extra in flight");
  plan.request.extra_in_flight = 0;
  plan.request.width = 3;
  plan.request.chunks = 2;
  for (const char* schedule : {"interleaved", "zbv"}) {
    plan.schedule = schedule;
    EXPECT_EQ(describe(plan), plan.schedule +
                                  ", 8 stages on 4 devices, width 3, microbatches 2 x 8, "
                                  "recompute full");
    plan.request.chunks = 1;  // of zbv, whose devices hold two stages whatever a plan says
  }
}

}  // namespace
}  // namespace tandem
