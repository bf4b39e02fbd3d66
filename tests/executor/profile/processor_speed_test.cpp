#include "executor/profile/processor_speed.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

/// What every machine that builds this reaches, and none exceeds.
TEST(ProcessorSpeed, IsThatOfAProcessor) {
  const ProcessorSpeed speed = measure_processor();
  EXPECT_GT(speed.product_flops_per_s, 1e7);
  EXPECT_LT(speed.product_flops_per_s, 1e13);
  EXPECT_GT(speed.memory_bytes_per_s, 1e7);
  EXPECT_LT(speed.memory_bytes_per_s, 1e13);
}

}  // namespace
}  // namespace tandem
