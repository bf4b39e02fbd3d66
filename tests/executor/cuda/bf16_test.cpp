// The bits of bfloat16, as CUDA's type has them.

#include "executor/cuda/kernels/bf16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace tandem::cuda {
namespace {

constexpr float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Bf16, RoundsToTheNearestAndOfTwoToTheEvenOne) {
  EXPECT_EQ(narrow<Bf16>(1.0F).bits, 0x3F80);
  EXPECT_EQ(narrow<Bf16>(float_of(0x3F807FFF)).bits, 0x3F80);  // just below half
  EXPECT_EQ(narrow<Bf16>(float_of(0x3F808000)).bits, 0x3F80);  // half, even below
  EXPECT_EQ(narrow<Bf16>(float_of(0x3F808001)).bits, 0x3F81);  // just above half
  EXPECT_EQ(narrow<Bf16>(float_of(0x3F818000)).bits, 0x3F82);  // half, even above
  EXPECT_EQ(narrow<Bf16>(-1.0F).bits, 0xBF80);
  EXPECT_EQ(narrow<Bf16>(-0.0F).bits, 0x8000);
  EXPECT_EQ(narrow<Bf16>(float_of(0x00000001)).bits, 0x0000);  // the smallest subnormal number
  EXPECT_EQ(narrow<Bf16>(float_of(0x00008001)).bits, 0x0001);
}

TEST(Bf16, WhatIsTooLargeIsInfiniteAndNoNumberStaysNone) {
  EXPECT_EQ(narrow<Bf16>(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(narrow<Bf16>(-std::numeric_limits<float>::infinity()).bits, 0xFF80);
  // Rounding its mantissa up would make it infinite.
  EXPECT_EQ(narrow<Bf16>(float_of(0x7F800001)).bits, 0x7FFF);
  EXPECT_EQ(narrow<Bf16>(float_of(0xFFFFFFFF)).bits, 0x7FFF);
}

TEST(Bf16, EveryValueComesBack) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(value))) continue;
    ASSERT_EQ(narrow<Bf16>(to_float(value)), value) << bits;
  }
}

}  // namespace
}  // namespace tandem::cuda
