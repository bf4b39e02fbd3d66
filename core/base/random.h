#pragma once
// Random numbers as a pure function of a key: no streams, no state, so that every partition of a
// model, every schedule and every device draws the same ones.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/base/hash.h"

namespace tandem {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014): the n-th number of a stream is split_mix(stream + n · kSplitMixGamma).
inline constexpr std::uint64_t kSplitMixGamma = 0x9e3779b97f4a7c15u;

/// A bijection of 64 bits that mixes well; 0 stays 0.
constexpr std::uint64_t split_mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30u)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27u)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31u);
}

/// The same, but for 0.
constexpr std::uint64_t mix(std::uint64_t bits) { return split_mix(bits + kSplitMixGamma); }

/// The random bits of element `counter` of the stream that (seed, key) names.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t key, std::uint64_t counter) {
  return mix(mix(mix(seed) ^ key) ^ counter);
}

constexpr std::uint64_t key_of(std::string_view name) { return hash_of_text(name); }

/// In (0, 1), from the upper 52 bits.
inline double uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

/// Standard normal (Box–Muller).
inline double normal(std::uint64_t seed, std::uint64_t key, std::uint64_t counter) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(random_bits(seed, key, 2 * counter))));
  const double angle = 2.0 * std::numbers::pi * uniform(random_bits(seed, key, 2 * counter + 1));
  return radius * std::cos(angle);
}

}  // namespace tandem
