// Bytes that plans of one cluster share are what each would have counted for itself.

#include "planner/cluster/known_bytes.h"

#include <string>

#include <gtest/gtest.h>

#include "core/model/catalog.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {
namespace {

constexpr std::int32_t kLayers = 66;  // of the model below

Plan plan_of(std::int32_t microbatch_size, Recompute recompute, std::uint16_t width,
             std::int32_t slices) {
  Plan plan;
  plan.model = find_model("llama-2-7b")->model;
  plan.microbatch_size = microbatch_size;
  plan.request.recompute = recompute;
  plan.request.width = width;
  plan.request.slices.count = slices;
  return plan;
}

void expect_own_bytes(KnownBytes& known, const Plan& plan, const AnalyticAssumptions& assumptions) {
  RangeBytes& bytes = known.of(plan, assumptions);
  for (std::int32_t layer = 0; layer < kLayers; ++layer) {
    const LayerRange range{layer / 2, layer + 1};
    const StageBytes& shared = bytes.of(range, plan);
    const StageBytes own = analytic_stage_bytes(plan.model, range, plan.microbatch_size,
                                                plan.optimizer, plan.request.recompute, assumptions,
                                                optimizer_shards(plan, assumptions),
                                                sequence_parts(plan.request.slices, plan.model));
    EXPECT_EQ(shared.slot, own.slot);
    EXPECT_EQ(shared.optimizer, own.optimizer);
    EXPECT_EQ(shared.workspace, own.workspace);
    EXPECT_EQ(shared.framework, own.framework);
    EXPECT_EQ(shared.pieces.stash, own.pieces.stash);
    EXPECT_EQ(shared.slices.size(), own.slices.size());
  }
}

TEST(KnownBytes, AreThoseOfEachPlan) {
  KnownBytes known;
  // A second time they are all known, or have been given up.
  for (int round = 0; round < 2; ++round) {
    for (const std::int32_t tensor : {1, 2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const bool sharded : {false, true}) {
          AnalyticAssumptions assumptions;
          assumptions.tensor = tensor;
          assumptions.sequence_parallel = sequence_parallel && tensor > 1;
          assumptions.sharded_optimizer = sharded;
          for (const Recompute recompute : {Recompute::none, Recompute::full}) {
            for (const std::int32_t slices : {1, 2})
              expect_own_bytes(known, plan_of(round + 1, recompute, 4, slices), assumptions);
          }
          expect_own_bytes(known, plan_of(1, Recompute::none, 8, 1), assumptions);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem
