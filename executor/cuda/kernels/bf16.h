#pragma once
// bfloat16 as a kernel stores it: the upper half of a float. Kernels compute in float; what they
// load and store goes through these functions, which leave a float as it is.

#include <bit>
#include <cstdint>

namespace tandem::cuda {

/// The bits of CUDA's __nv_bfloat16.
struct Bf16 {
  std::uint16_t bits = 0;
  friend bool operator==(const Bf16&, const Bf16&) = default;
};

constexpr float to_float(float x) { return x; }
constexpr float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

template <class A>
constexpr A narrow(float x);

template <>
constexpr float narrow<float>(float x) {
  return x;
}

/// To the nearest, of two equally near to the even one; every NaN becomes the same NaN.
template <>
constexpr Bf16 narrow<Bf16>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FFF};
  const std::uint32_t lowest_kept = (bits >> 16) & 1U;
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + lowest_kept) >> 16)};
}

}  // namespace tandem::cuda
