// Our bfloat16 has the bits of CUDA's, whose functions run on the host, too.

#include <bit>
#include <cstdint>

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include "executor/cuda/kernels/bf16.h"

namespace tandem::cuda {
namespace {

TEST(CudaBf16, HasTheSameBits) {
  static_assert(sizeof(Bf16) == sizeof(__nv_bfloat16));
  for (std::uint32_t kept = 0; kept <= 0xFFFF; ++kept) {
    for (const std::uint32_t lost : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const float value = std::bit_cast<float>(kept << 16 | lost);
      ASSERT_EQ(narrow<Bf16>(value).bits, std::bit_cast<std::uint16_t>(__float2bfloat16(value)))
          << kept << " " << lost;
    }
    const auto bits = static_cast<std::uint16_t>(kept);
    const auto theirs = std::bit_cast<__nv_bfloat16>(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to_float(Bf16{bits})),
              std::bit_cast<std::uint32_t>(__bfloat162float(theirs)));
  }
}

}  // namespace
}  // namespace tandem::cuda
