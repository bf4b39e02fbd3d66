// Prices by stage: plain, from a profile, and what is wrong with a profile.

#include "simulator/cost/stage_costs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/schedule/placement.h"
#include "simulator/cost/measured_layers.h"
#include "tests/core/error_of.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ns = Duration;

StageTimes times_from(std::int64_t first) {
  return {.forward = ns(first),
          .recompute = ns(first + 1),
          .backward = ns(first + 2),
          .backward_input = ns(first + 3),
          .backward_weight = ns(first + 4),
          .update = ns(first + 5),
          .reduce = ns(first + 6)};
}

TEST(StageCosts, PricesEveryKindByItsStage) {
  StageCosts costs;
  costs.stages = {times_from(100), times_from(200)};
  costs.transfer = ns(7);
  costs.reduce_tied = ns(9);
  costs.norm = ns(11);
  const CostModel model = cost_model(linear_placement(2), costs);
  const auto price_of = [&](OpKind kind, int stage) {
    return model({.kind = kind, .replica = id_at<ReplicaId>(static_cast<std::size_t>(stage))})
        .count();
  };
  EXPECT_EQ(price_of(OpKind::forward, 1), 200);
  EXPECT_EQ(price_of(OpKind::recompute, 0), 101);
  EXPECT_EQ(price_of(OpKind::backward, 1), 202);
  EXPECT_EQ(price_of(OpKind::backward_input, 0), 103);
  EXPECT_EQ(price_of(OpKind::backward_weight, 1), 204);
  EXPECT_EQ(price_of(OpKind::update, 0), 105);
  EXPECT_EQ(price_of(OpKind::reduce_gradient, 1), 206);
  EXPECT_EQ(price_of(OpKind::send_activation, 0), 7);
  EXPECT_EQ(price_of(OpKind::send_gradient, 1), 7);
  EXPECT_EQ(price_of(OpKind::reduce_tied, 0), 9);
  EXPECT_EQ(price_of(OpKind::reduce_norm, 0), 11);
}

TEST(StageCosts, PricesAMoveByItsStashOrAsAnyTransfer) {
  StageCosts costs = uniform_costs(2, times_from(100), ns(7));
  costs.stages[StageId{1}].move = ns(30);
  const CostModel model = cost_model(linear_placement(2), costs);
  for (const OpKind kind : {OpKind::evict, OpKind::load}) {
    EXPECT_EQ(model({.kind = kind, .replica = ReplicaId{0}}).count(), 7);
    EXPECT_EQ(model({.kind = kind, .replica = ReplicaId{1}}).count(), 30);
  }
}

TEST(StageCosts, LetsReplicasShareTheirStagesPrices) {
  StageCosts costs;
  costs.stages = {times_from(100), times_from(200)};
  const CostModel model = cost_model(bidirectional_placement(2), costs);
  EXPECT_EQ(model({.replica = ReplicaId{0}}), model({.replica = ReplicaId{2}}));
  EXPECT_EQ(model({.replica = ReplicaId{1}}), model({.replica = ReplicaId{3}}));
  EXPECT_NE(model({.replica = ReplicaId{0}}), model({.replica = ReplicaId{1}}));
}

TEST(StageCosts, SharesWhatAUnitTakesAmongItsOps) {
  StageTimes times{.forward = ns(10), .backward = ns(20), .backward_input = ns(8)};
  const auto price_of = [&](OpKind kind, bool overlapped) {
    const CostModel model = cost_model(linear_placement(1), uniform_costs(1, times, {}));
    return model({.kind = kind, .overlapped = overlapped}).count();
  };
  EXPECT_EQ(price_of(OpKind::forward, true), 10) << "their sum, by default";
  EXPECT_EQ(price_of(OpKind::backward, true), 20);
  times.overlapped = ns(25);
  EXPECT_EQ(price_of(OpKind::forward, true), 8);
  EXPECT_EQ(price_of(OpKind::backward, true), 17);
  EXPECT_EQ(price_of(OpKind::backward_input, true), 8) << "alone";
  EXPECT_EQ(price_of(OpKind::forward, false), 10);
  EXPECT_EQ(price_of(OpKind::backward, false), 20);
}

TEST(StageCosts, PricesWeightGradientsOfSeveralMicrobatchesEach) {
  const CostModel model = cost_model(linear_placement(1), uniform_costs(1, times_from(100), {}));
  EXPECT_EQ(model({.kind = OpKind::backward_weight, .span = 3}), ns(3 * 104));
}

TEST(StageCosts, RepeatsUniformTimes) {
  const StageCosts costs = uniform_costs(3, times_from(10), ns(4));
  ASSERT_EQ(costs.stages.size(), 3u);
  EXPECT_EQ(costs.stages[StageId{2}].backward, ns(12));
  EXPECT_EQ(costs.transfer, ns(4));
}

TEST(StageCostsDeathTest, RefusesAPlacementOfOtherStages) {
  EXPECT_DEATH(cost_model(linear_placement(3), uniform_costs(2, {}, {})), "placement.stages");
}

ModelSpec small_model() {
  return {.name = "small", .blocks = 1, .width = 8, .heads = 2, .sequence = 4, .vocabulary = 16};
}

LayerCost layer_cost(LayerKind kind, std::int64_t first) {
  return {.kind = kind,
          .microbatch_size = 2,
          .forward = ns(first),
          .backward_input = ns(first * 2),
          .backward_weight = ns(first * 3),
          .backward = ns(first * 4),
          .update = ns(first * 5),
          .selective_recompute = ns(first * 6)};
}

Profile small_profile() {
  Profile profile;
  profile.model = small_model();
  profile.layers = {layer_cost(LayerKind::embedding, 1), layer_cost(LayerKind::attention, 10),
                    layer_cost(LayerKind::mlp, 100), layer_cost(LayerKind::head, 1000)};
  profile.transfers = {{.bytes = 0, .time = ns(100)}, {.bytes = 1024, .time = ns(1124)}};
  profile.instruction_overhead = ns(5);
  return profile;
}

TEST(CostsFromProfile, SumsTheLayersOfAStageAndAddsTheOverheadOnce) {
  const StageCosts costs =
      costs_from_profile(small_profile(), small_model(), {{0, 2}, {2, 4}}, 2, Recompute::none);
  EXPECT_EQ(costs.stages[StageId{0}].forward, ns(1 + 10 + 5));
  EXPECT_EQ(costs.stages[StageId{1}].forward, ns(100 + 1000 + 5));
  EXPECT_EQ(costs.stages[StageId{0}].backward, ns(4 * 11 + 5));
  EXPECT_EQ(costs.stages[StageId{1}].backward_input, ns(2 * 1100 + 5));
  EXPECT_EQ(costs.stages[StageId{1}].backward_weight, ns(3 * 1100 + 5));
  EXPECT_EQ(costs.stages[StageId{1}].update, ns(5 * 1100 + 5));
  EXPECT_EQ(costs.stages[StageId{0}].recompute, costs.stages[StageId{0}].forward);
}

TEST(CostsFromProfile, PricesSlicesAsTheyWereMeasured) {
  Profile profile = small_profile();
  for (const auto& [tokens, before, factor] : {std::tuple{3, 0, 2}, std::tuple{1, 3, 3}}) {
    profile.slices.push_back({.tokens = tokens, .before = before, .layers = profile.layers});
    for (LayerCost& layer : profile.slices.back().layers) layer.forward *= factor;
  }
  Plan plan{.model = small_model(),
            .schedule = "seq1f1b",
            .request = {.devices = 2, .slices = Slicing::of_lengths({3, 1})},
            .microbatch_size = 2,
            .stages = {{0, 2}, {2, 4}}};
  const StageCosts costs = costs_from_profile(profile, plan);
  ASSERT_EQ(costs.slices.size(), 2u);
  EXPECT_EQ(costs.slices[0].stages[StageId{1}].forward, ns(2 * 1100 + 5));
  EXPECT_EQ(costs.slices[1].stages[StageId{1}].forward, ns(3 * 1100 + 5));
  EXPECT_EQ(costs.stages[StageId{1}].forward, ns(5 * 1100 + 10));
  EXPECT_EQ(costs.stages[StageId{1}].update, ns(5 * 1100 + 5)) << "once";
  // 2 samples of 3 tokens, and of 1, of 8 floats: 192 and 64 bytes at 100 ns and 1 a byte.
  EXPECT_EQ(costs.slices[0].transfer, ns(292));
  EXPECT_EQ(costs.slices[1].transfer, ns(164));
  profile.slices.clear();
  EXPECT_EQ(testing::error_of([&] { costs_from_profile(profile, plan); }),
            "the profile has no times of slices: measure them with tandem profile --slices");
}

TEST(CostsFromProfile, PricesTheUpdatesPlanes) {
  const auto updates = [](std::string_view schedule, OptimizerKind optimizer) {
    Plan plan{.model = small_model(),
              .schedule = std::string(schedule),
              .request = {.devices = 2, .microbatches = 2},
              .microbatch_size = 2,
              .stages = {{0, 2}, {2, 4}}};
    plan.optimizer = optimizer;
    Profile profile = small_profile();
    profile.model.tied = plan.model.tied = false;
    const StageCosts costs = costs_from_profile(profile, plan);
    EXPECT_EQ(costs.layers[0].update + costs.layers[1].update + ns(5),
              costs.stages[StageId{0}].update);
    return std::pair(costs.stages[StageId{0}].update - ns(5), costs.stages[StageId{1}].update);
  };
  const auto plain = updates("paci", OptimizerKind::adamw);
  // AdamW moves 32 bytes of a weight, a plane 8, δ 8; the last stage corrects and predicts nothing.
  const auto longer = [&](double share) {
    return std::pair(ns(std::llround((1 + share) * static_cast<double>(plain.first.count()))),
                     plain.second);
  };
  const auto near = [](const auto& found, const auto& wanted) {
    EXPECT_LE(std::abs((found.first - wanted.first).count()), 1);
    EXPECT_EQ(found.second, wanted.second);
  };
  near(updates("pipeoptim", OptimizerKind::adamw), longer(8.0 / 32));
  near(updates("pipemare", OptimizerKind::adamw), longer(16.0 / 32));
  near(updates("pipeoptim", OptimizerKind::sgd), longer(8.0 / 16));
}

TEST(CostsFromProfile, AddsSelectiveRecomputationToTheBackwardOnly) {
  const auto costs_of = [](Recompute recompute) {
    return costs_from_profile(small_profile(), small_model(), {{0, 2}, {2, 4}}, 2, recompute)
        .stages[StageId{1}];
  };
  const StageTimes none = costs_of(Recompute::none), selective = costs_of(Recompute::selective);
  EXPECT_EQ(selective.backward, none.backward + ns(6 * 1100));
  EXPECT_EQ(selective.backward_input, none.backward_input + ns(6 * 1100));
  EXPECT_EQ(selective.backward_weight, none.backward_weight);
  EXPECT_EQ(selective.forward, none.forward);
  EXPECT_EQ(costs_of(Recompute::stage).backward, none.backward);
}

TEST(CostsFromProfile, InterpolatesTransfersByTheirBytes) {
  // A boundary is 2 · 4 · 8 floats: 256 bytes, a quarter of the way from 100 to 1124.
  const StageCosts costs =
      costs_from_profile(small_profile(), small_model(), {{0, 4}}, 2, Recompute::none);
  EXPECT_EQ(costs.transfer, ns(356));
  Profile one = small_profile();
  one.transfers = {{.bytes = 64, .time = ns(77)}};
  EXPECT_EQ(costs_from_profile(one, small_model(), {{0, 4}}, 2, Recompute::none).transfer, ns(77));
}

TEST(CostsFromProfile, PricesSumsAndTheNormAsPassesOverTheGradients) {
  // A hand-over takes 100 ns and 1 a byte.
  const auto bytes_of = [](LayerKind first, LayerKind second) {
    return 4 * (parameters_of(small_model(), first) + parameters_of(small_model(), second));
  };
  const std::int64_t upper = bytes_of(LayerKind::embedding, LayerKind::attention);
  const std::int64_t lower = bytes_of(LayerKind::mlp, LayerKind::head);
  Plan plan{.model = small_model(),
            .schedule = "1f1b",
            .request = {.devices = 2},
            .microbatch_size = 2,
            .stages = {{0, 2}, {2, 4}}};
  StageCosts costs = costs_from_profile(small_profile(), plan);
  EXPECT_EQ(costs.stages[StageId{0}].reduce, ns(0));
  EXPECT_EQ(costs.norm, ns(100 + std::max(upper, lower) + 100));
  plan.request.width = 3;
  costs = costs_from_profile(small_profile(), plan);
  EXPECT_EQ(costs.stages[StageId{0}].reduce, ns(100 + 2 * 2 * upper));
  EXPECT_EQ(costs.stages[StageId{1}].reduce, ns(100 + 2 * 2 * lower));
  plan.request.width = 1;
  plan.request.devices = 3;
  plan.request.replicas = {2, 1};
  costs = costs_from_profile(small_profile(), plan);
  EXPECT_EQ(costs.stages[StageId{0}].reduce, ns(100 + 2 * upper));
  EXPECT_EQ(costs.stages[StageId{1}].reduce, ns(0));
}

std::string diagnostic(const Profile& profile, const ModelSpec& model, std::int32_t size) {
  try {
    costs_from_profile(profile, model, {{0, 4}}, size, Recompute::none);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CostsFromProfile, SaysWhatTheProfileLacks) {
  EXPECT_THAT(diagnostic(small_profile(), small_model(), 3),
              HasSubstr("no layer \"embedding\" at microbatch size 3"));
  Profile without = small_profile();
  without.layers.erase(without.layers.begin() + 2);
  EXPECT_THAT(diagnostic(without, small_model(), 2), HasSubstr("no layer \"mlp\""));
  without = small_profile();
  without.transfers.clear();
  EXPECT_THAT(diagnostic(without, small_model(), 2), HasSubstr("no transfers"));
}

TEST(CostsFromProfile, TakesALineBetweenMeasuredMicrobatchSizes) {
  Profile profile = small_profile();
  for (const LayerCost& two : small_profile().layers) {
    for (const std::int32_t size : {6, 10}) {
      LayerCost more = two;
      more.microbatch_size = size;
      more.forward = two.forward + ns(40 * size);
      more.backward = two.backward + ns(size == 6 ? 600 : 1000);
      profile.layers.push_back(more);
    }
  }
  const auto at = [&](std::int32_t size) {
    return costs_from_profile(profile, small_model(), {{1, 2}}, size, Recompute::none)
        .stages[StageId{0}];
  };
  EXPECT_EQ(at(2).forward, ns(10 + 5));
  EXPECT_EQ(at(3).forward, ns(10 + 60 + 5)) << "a quarter of the way from 2 to 6";
  EXPECT_EQ(at(3).backward, ns(40 + 150 + 5));
  EXPECT_EQ(at(3).update, at(2).update);
  EXPECT_EQ(at(6).forward, ns(10 + 240 + 5));
  EXPECT_EQ(at(8).forward, ns(10 + 320 + 5)) << "the nearest sizes count";
  EXPECT_THAT(diagnostic(profile, small_model(), 1), HasSubstr("at microbatch size 1"));
  EXPECT_THAT(diagnostic(profile, small_model(), 11), HasSubstr("at microbatch size 11"));
  EXPECT_EQ(interpolations({{1, profile}}, small_model(), 6, 1), std::vector<std::string>{});
  EXPECT_EQ(interpolations({{1, profile}}, small_model(), 8, 1),
            (std::vector<std::string>{
                "microbatches of 8 were not measured: costs are interpolated between 6 and 10"}));
}

TEST(CostsFromProfile, RefusesAProfileOfAnotherModel) {
  ModelSpec wider = small_model();
  wider.width = 16;
  EXPECT_THAT(diagnostic(small_profile(), wider, 2), HasSubstr("width 8"));
  EXPECT_THAT(diagnostic(small_profile(), wider, 2), HasSubstr("width 16"));
  ModelSpec deeper = small_model();
  deeper.blocks = 9;  // more of the same layers: the profile holds for them too
  EXPECT_EQ(diagnostic(small_profile(), deeper, 2), "accepted");
}

}  // namespace
}  // namespace tandem::testing
