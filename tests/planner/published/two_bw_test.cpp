// 2BW's planner: its paper's formulas, worked by hand.

#include "planner/published/two_bw.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TwoBwQuestion question() {
  return {.global_batch = 64,
          .devices = 8,
          .devices_a_node = 8,
          .blocks = 24,
          .microbatch_sizes = {1, 2, 4, 8},
          .within_bytes_per_s = 100e9,
          .between_bytes_per_s = 1e9,
          .memory_bytes = 16e9,
          .weight_bytes = 2e9,
          .other_bytes = 14e9,
          .flushes = false,
          .work = [](std::int32_t size) {
            return TwoBwWork{.block_s = 0.010 * size + 0.005,
                             .first_s = 0.0,
                             .last_s = 0.0,
                             .boundary_bytes = 1e6 * size,
                             .activation_bytes = 2e9 * size};
          }};
}

TEST(TwoBwPlanner, MemoryAsksForAPipelineAndTheFormulaForRecomputation) {
  TwoBwQuestion asked = question();
  const auto found = plan_two_bw(asked);
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found->memory_bytes, asked.memory_bytes);
  EXPECT_GT(found->depth, 1);  // 16 GB of state do not fit one device beside activations
  EXPECT_EQ(std::int64_t{found->microbatch_size} * found->microbatches * found->width, 64);
  EXPECT_GE(found->microbatches, found->depth);
}

TEST(TwoBwPlanner, TheStepIsThePapersFormula) {
  TwoBwQuestion asked = question();
  asked.memory_bytes = 1e12;
  asked.microbatch_sizes = {2};
  asked.devices = 4;
  asked.global_batch = 8;
  // With so much memory nothing is made again; 4 replicas, a microbatch each of 24 blocks of 25 ms,
  // the sum of 2 · 3/4 · 2 GB at 100 GB/s hidden: 0.6 s. A pipeline of 4 has links on top.
  const auto found = plan_two_bw(asked);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->width, 4);
  EXPECT_EQ(found->depth, 1);
  EXPECT_DOUBLE_EQ(found->step_s, 24 * 0.025);
  // Slow sums turn it round: 2 · 3/4 · 2 GB at 1 GB/s are 3 s a batch.
  asked.within_bytes_per_s = 1e9;
  const auto slow = plan_two_bw(asked);
  EXPECT_EQ(slow->depth, 4);
  EXPECT_DOUBLE_EQ(slow->step_s, 4 * (6 * 0.025 + 2 * 2e6 / 1e9));
}

TEST(TwoBwPlanner, FlushesNeedOneVersionOnly) {
  TwoBwQuestion asked = question();
  asked.microbatch_sizes = {1};
  const auto delayed = plan_two_bw(asked);
  asked.flushes = true;
  const auto flushed = plan_two_bw(asked);
  EXPECT_LE(flushed->step_s, delayed->step_s);
  asked.memory_bytes = 1e9;
  EXPECT_FALSE(plan_two_bw(asked).has_value());
}

}  // namespace
}  // namespace tandem
