// Layers between the microbatch sizes and tensor degrees that a profile has.

#include "simulator/cost/measured_layers.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/catalog.h"
#include "simulator/cost/cluster_costs.h"
#include "tests/core/error_of.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

ModelSpec model() {
  return {.name = "small", .blocks = 2, .width = 16, .heads = 8, .sequence = 4, .vocabulary = 16};
}

/// A law that no line fits: of a part that all do alike, and one that is shared, both by samples.
Duration law(LayerKind kind, std::int32_t size, std::int32_t tensor) {
  const auto weight = static_cast<std::int64_t>(kind) + 1;
  return Duration(weight * (50 + 100 * size) + weight * 8400 * size / tensor);
}

TensorProfiles profiles(const std::vector<std::int32_t>& degrees,
                        const std::vector<std::int32_t>& sizes) {
  TensorProfiles all;
  for (const std::int32_t tensor : degrees) {
    Profile& profile = all[tensor];
    profile.machine = "a node";
    profile.model = model();
    profile.instruction_overhead = Duration(9);
    for (const LayerKind kind :
         {LayerKind::embedding, LayerKind::attention, LayerKind::mlp, LayerKind::head}) {
      for (const std::int32_t size : sizes) {
        const Duration forward = law(kind, size, tensor);
        profile.layers.push_back({.kind = kind,
                                  .microbatch_size = size,
                                  .forward = forward,
                                  .backward_input = 2 * forward,
                                  .backward_weight = 3 * forward,
                                  .backward = 5 * forward,
                                  .update = forward / 2,
                                  .selective_recompute = Duration(tensor)});
      }
    }
  }
  return all;
}

StageTimes mlp_at(const TensorProfiles& from, std::int32_t size, std::int32_t tensor,
                  Recompute recompute = Recompute::none) {
  return measured_layers(from, model(), size, recompute, tensor).each_of({2, 3})[0];
}

TEST(MeasuredLayers, AreExactWhereMeasuredAndFollowTheLawBetween) {
  const TensorProfiles from = profiles({1, 2, 8}, {1, 4});
  for (const std::int32_t tensor : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const std::int32_t size : {1, 2, 3, 4}) {
      const StageTimes times = mlp_at(from, size, tensor);
      const auto expected = static_cast<double>(law(LayerKind::mlp, size, tensor).count());
      EXPECT_NEAR(static_cast<double>(times.forward.count()), expected, 2) << tensor << ' ' << size;
      EXPECT_NEAR(static_cast<double>(times.backward.count()), 5 * expected, 6);
      EXPECT_NEAR(static_cast<double>(times.backward_weight.count()), 3 * expected, 4);
      EXPECT_EQ(times.recompute, times.forward);
    }
  }
  for (const std::int32_t tensor : {1, 2, 8})
    EXPECT_EQ(mlp_at(from, 4, tensor).forward, law(LayerKind::mlp, 4, tensor));
  // Selective recomputation, at 2 and 8: a + b / T.
  EXPECT_EQ(mlp_at(from, 1, 4, Recompute::selective).backward - mlp_at(from, 1, 4).backward,
            Duration(6));
}

TEST(MeasuredLayers, BetweenNeighboursOnlyTheseCount) {
  TensorProfiles from = profiles({1, 2, 8}, {1});
  const StageTimes before = mlp_at(from, 1, 4);
  for (LayerCost& row : from.at(1).layers) row.forward *= 3;
  EXPECT_EQ(mlp_at(from, 1, 4), before);
  for (LayerCost& row : from.at(8).layers) row.forward *= 3;
  EXPECT_GT(mlp_at(from, 1, 4).forward, before.forward);
  EXPECT_EQ(mlp_at(from, 1, 2).forward, law(LayerKind::mlp, 1, 2));
}

TEST(MeasuredLayers, AreNotKnownBeyondWhatWasMeasured) {
  const TensorProfiles from = profiles({2, 8}, {2, 4});
  EXPECT_THAT(error_of([&] { mlp_at(from, 2, 16); }), HasSubstr("tensor degrees 2, 8, not 16"));
  EXPECT_THAT(error_of([&] { mlp_at(from, 2, 1); }), HasSubstr("tensor degrees 2, 8, not 1"));
  EXPECT_EQ(error_of([&] { mlp_at(from, 8, 4); }),
            "the profile has no layer \"embedding\" at microbatch size 8, nor below and above it, "
            "at tensor degree 2");
}

TEST(MeasuredLayers, SayWhatLiesBetween) {
  const TensorProfiles from = profiles({1, 4}, {1, 4});
  EXPECT_EQ(interpolations(from, model(), 4, 4), std::vector<std::string>{});
  EXPECT_EQ(interpolations(from, model(), 2, 3),
            (std::vector<std::string>{
                "microbatches of 2 were not measured: costs are interpolated between 1 and 4",
                "tensor degree 3 was not measured: layer times are interpolated as a + b / T "
                "between 1 and 4"}));
}

TEST(MeasuredLayers, AreOfTheModelThatWasMeasuredWhateverItsArchitecture) {
  Profile profile = profiles({1}, {1}).at(1);
  EXPECT_EQ(error_of([&] { check_same_layers(profile, model()); }), "nothing was thrown");
  profile.model.architecture = Architecture::transformer;
  EXPECT_EQ(error_of([&] { check_same_layers(profile, model()); }),
            "the profile measured model \"small\" (transformer, width 16, 8 heads, sequence 4, "
            "vocabulary 16), not \"small\" (gpt2, width 16, 8 heads, sequence 4, vocabulary 16)");
  ModelSpec gated = profile.model;
  gated.shape.gated = true;
  EXPECT_EQ(error_of([&] { check_same_layers(profile, gated); }),
            "the profile measured model \"small\" (transformer, width 16, 8 heads, sequence 4, "
            "vocabulary 16), not \"small\" (transformer, width 16, 8 heads, sequence 4, vocabulary "
            "16, of another shape)");
  ModelSpec linear = model();
  linear.architecture = Architecture::linear;
  EXPECT_THAT(error_of([&] { check_same_layers(profile, linear); }), HasSubstr("(linear, width"));
}

TEST(MeasuredLayers, TakeThePlaceOfRooflinesOnACluster) {
  const Plan plan{.model = model(),
                  .schedule = "1f1b",
                  .request = {.devices = 2, .microbatches = 4},
                  .microbatch_size = 2,
                  .stages = {{0, 3}, {3, 6}}};
  const Cluster cluster(cluster_of_nodes("p3.16xlarge"));
  const ClusterLayout layout(cluster, 1, 2, DeviceOrder::replicas_first, 4);
  const Schedule schedule = make_schedule(plan);
  AnalyticAssumptions assumptions{.calibration = Calibration{}};
  assumptions.tensor = 4;
  const StageCosts analytic = cluster_costs(plan, schedule.placement, layout, assumptions);
  assumptions.measured = std::make_shared<const TensorProfiles>(profiles({1, 2, 4}, {1, 4}));
  const StageCosts measured = cluster_costs(plan, schedule.placement, layout, assumptions);
  const LayerTimes layers = measured_layers(*assumptions.measured, model(), 2, Recompute::none, 4);
  EXPECT_EQ(measured.stages[StageId{0}].backward, layers.of({0, 3}).backward);
  EXPECT_EQ(measured.stages[StageId{1}].update, layers.of({3, 6}).update);
  EXPECT_NE(measured.stages[StageId{0}].forward, analytic.stages[StageId{0}].forward);
  EXPECT_EQ(measured.ways, analytic.ways) << "links are the cluster's";
}

}  // namespace
}  // namespace tandem
