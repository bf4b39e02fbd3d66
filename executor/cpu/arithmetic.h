#pragma once
// Helpers of the kernels: an exponential that compilers vectorise, and sums in a fixed order of
// lanes.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "executor/cpu/vectors.h"

namespace tandem::cpu {

/// a·b + c, rounded once, on every machine.
template <class T>
TANDEM_LOOPS inline T fused(T a, T b, T c) {
  return std::fma(a, b, c);
}

/// eˣ to a unit in the last place or two, NaN for NaN. Beyond ±60 it is e^±60: neither a softmax
/// nor a sigmoid in float can tell, and products stay clear of subnormal numbers, which cost a
/// hundred cycles each, even in lanes that a vectorised choice then throws away.
TANDEM_LOOPS inline float exponential(float x) {
  const float low = x < -60.0F ? -60.0F : x;
  const float clamped = low > 60.0F ? 60.0F : low;
  // Adding 1.5·2²³ leaves the nearest integer in the low bits of the sum.
  const float shifted = fused(clamped, 1.44269504F, 12582912.0F);
  const float power = shifted - 12582912.0F;
  const float rest = fused(power, 2.12194440e-4F, fused(power, -0.693359375F, clamped));
  float series = 1.9875691500e-4F;
  series = fused(series, rest, 1.3981999507e-3F);
  series = fused(series, rest, 8.3334519073e-3F);
  series = fused(series, rest, 4.1665795894e-2F);
  series = fused(series, rest, 1.6666665459e-1F);
  series = fused(series, rest, 5.0000001201e-1F);
  const float mantissa = fused(series * rest, rest, rest) + 1.0F;
  const std::uint32_t scale = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000U;
  return mantissa * std::bit_cast<float>(scale);
}

inline double exponential(double x) { return std::exp(x); }

inline constexpr std::size_t kLanes = 16;

/// Σ value(i) for i < count, `value` marked TANDEM_LOOPS, in 16 interleaved sums that are then
/// added pairwise.
template <class T, class Value>
TANDEM_LOOPS inline T lane_sum(std::size_t count, Value value) {
  std::array<T, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += value(i);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// The largest of x[0 … count), count > 0. NaN may or may not win.
template <class T>
TANDEM_LOOPS inline T largest(const T* x, std::size_t count) {
  std::array<T, kLanes> lanes;
  lanes.fill(x[0]);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  }
  for (; i < count; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  T result = lanes[0];
  for (const T& lane : lanes) result = lane > result ? lane : result;
  return result;
}

}  // namespace tandem::cpu
