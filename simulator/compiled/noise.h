#pragma once
// Noise: chance that is a function of a seed and of what it is for. The n-th number of a stream is
// a hash of stream and n, so that it may be drawn by anybody, in any order, and is the same.

#include <cstdint>

#include "core/base/random.h"

namespace tandem::noise {

constexpr std::uint64_t stream(std::uint64_t seed, std::uint64_t scenario) {
  return split_mix(split_mix(seed + kSplitMixGamma) + (scenario + 1) * kSplitMixGamma);
}

/// Uniform in [0, 1), from a number drawn.
constexpr double uniform(std::uint64_t number) {
  return static_cast<double>(number >> 11u) * 0x1p-53;
}

/// The sum of a number's four 16-bit parts: from 0 to 4 · 65,535, close to normal, of mean 131,070
/// and standard deviation 37,837.23.
constexpr std::uint64_t sum_of_parts(std::uint64_t number) {
  constexpr std::uint64_t kEven = 0x0000FFFF0000FFFFu;
  const std::uint64_t pairs = (number & kEven) + ((number >> 16u) & kEven);
  return (pairs & 0xFFFFFFFFu) + (pairs >> 32u);
}

/// By how much an op's time varies: a factor of mean 1, the sum of four uniform parts, and so close
/// to normal but within 3.47 standard deviations. In whole numbers, which are the same everywhere.
class Jitter {
 public:
  static constexpr double kMost = 0.25;                // no op may take less than no time
  static constexpr std::int64_t kLongest = 1LL << 40;  // ns, of an op: 18 minutes

  Jitter() = default;
  /// REQUIRES: 0 ≤ deviation ≤ kMost. A deviation is met to 10⁻⁵.
  explicit Jitter(double deviation)
      : slope_(static_cast<std::uint64_t>(deviation * 0x1p32 / kDeviation + 0.5)),
        base_((std::uint64_t{1} << 32u) - kMean * slope_) {}

  bool none() const { return slope_ == 0; }

  /// REQUIRES: 0 ≤ time ≤ kLongest.
  constexpr std::int64_t time(std::int64_t time, std::uint64_t number) const {
    const std::uint64_t factor = (base_ + sum_of_parts(number) * slope_) >> 10u;
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(time) * factor + (1u << 21u)) >>
                                     22u);
  }

 private:
  static constexpr std::uint64_t kMean = 131'070;
  static constexpr double kDeviation = 37'837.226;
  std::uint64_t slope_ = 0, base_ = std::uint64_t{1} << 32u;
};

}  // namespace tandem::noise
