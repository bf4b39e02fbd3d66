#pragma once
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014): the n-th number of a stream is split_mix(stream + n · kSplitMixGamma), the same on every
// machine.

#include <cstdint>

namespace tandem {

inline constexpr std::uint64_t kSplitMixGamma = 0x9e3779b97f4a7c15u;

/// A bijection of 64 bits that mixes well; 0 stays 0.
constexpr std::uint64_t split_mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30u)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27u)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31u);
}

}  // namespace tandem
