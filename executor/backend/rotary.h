#pragma once
// Rotary positions: how far each pair of a head's channels is turned at a position, the same on
// every device.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "core/base/check.h"
#include "core/model/transformer_shape.h"
#include "executor/backend/in_kernels.h"

namespace tandem {

/// Turns of queries and keys. Channels i and i + w/2 of a head of w channels are a pair, as in the
/// files of Hugging Face.
struct Rotation {
  static constexpr std::size_t kMostPairs = 256;
  std::array<float, kMostPairs> frequencies = {};  // of pair i, in radians a position
  std::int64_t first = 0;                          // position of the first token
  bool back = false;                               // of gradients: the other way round
};

/// Frequencies are rounded to float, as in the library whose weights are trained so: at position
/// 8192 that is a ten-thousandth of a radian. REQUIRES: why_untrainable() has nothing against them.
inline Rotation rotation_of(const TransformerShape& shape) {
  const RotaryPositions& rotary = shape.details.rotary;
  TANDEM_CHECK(rotary.theta > 0.0 && rotary.scaling != RotaryScaling::other, rotary.theta);
  TANDEM_CHECK(shape.head_width % 2 == 0, shape.head_width);
  const auto pairs = static_cast<std::size_t>(shape.head_width / 2);
  TANDEM_CHECK(pairs <= Rotation::kMostPairs, pairs);
  Rotation rotation;
  for (std::size_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(rotary.theta, -2.0 * static_cast<double>(i) / shape.head_width);
    if (rotary.scaling == RotaryScaling::llama3) {
      // Wavelengths in the original sequence, from the band's end of 0 to that of 1.
      const double waves = rotary.original_positions * frequency / (2.0 * std::numbers::pi);
      const double band = rotary.high_frequency_factor - rotary.low_frequency_factor;
      double kept = (waves - rotary.low_frequency_factor) / band;
      if (waves < rotary.low_frequency_factor) kept = 0.0;
      if (waves > rotary.high_frequency_factor) kept = 1.0;
      frequency *= (1.0 - kept) / rotary.factor + kept;
    }
    rotation.frequencies[i] = static_cast<float>(frequency);
  }
  return rotation;
}

struct Turn {
  double cosine = 1.0, sine = 0.0;
};

/// Of an angle within ±10⁷, to 10⁻¹⁵: series about the nearest quarter turn, without branches.
TANDEM_IN_KERNELS inline Turn turn_by(double angle) {
  constexpr double kRounds = 6755399441055744.0;  // 1.5·2⁵²: leaves the quarters in the low bits
  const double shifted = std::fma(angle, 0.63661977236758134, kRounds);
  const double quarters = shifted - kRounds;
  const double high = std::fma(-quarters, 1.5707963267948966, angle);
  const double rest = std::fma(-quarters, 6.123233995736766e-17, high), square = rest * rest;
  double sine = -1.0 / 1307674368000.0, cosine = 1.0 / 20922789888000.0;
  sine = std::fma(sine, square, 1.0 / 6227020800.0);
  sine = std::fma(sine, square, -1.0 / 39916800.0);
  sine = std::fma(sine, square, 1.0 / 362880.0);
  sine = std::fma(sine, square, -1.0 / 5040.0);
  sine = std::fma(sine, square, 1.0 / 120.0);
  sine = std::fma(sine, square, -1.0 / 6.0);
  sine = std::fma(sine * square, rest, rest);
  cosine = std::fma(cosine, square, -1.0 / 87178291200.0);
  cosine = std::fma(cosine, square, 1.0 / 479001600.0);
  cosine = std::fma(cosine, square, -1.0 / 3628800.0);
  cosine = std::fma(cosine, square, 1.0 / 40320.0);
  cosine = std::fma(cosine, square, -1.0 / 720.0);
  cosine = std::fma(cosine, square, 1.0 / 24.0);
  cosine = std::fma(cosine, square, -0.5);
  cosine = std::fma(cosine, square, 1.0);
  const std::int64_t quarter = std::bit_cast<std::int64_t>(shifted) & 3;
  const double along = (quarter & 1) != 0 ? sine : cosine;
  const double across = (quarter & 1) != 0 ? cosine : sine;
  return {.cosine = ((quarter + 1) & 2) != 0 ? -along : along,
          .sine = (quarter & 2) != 0 ? -across : across};
}

/// At a position; the angle is rounded to float, too.
TANDEM_IN_KERNELS inline Turn turn_at(std::int64_t position, float frequency) {
  return turn_by(static_cast<double>(static_cast<float>(position) * frequency));
}

}  // namespace tandem
