#pragma once
// Hashes of 64 bits, the same on every machine: to tell apart what nobody made look alike.

#include <cstdint>
#include <span>
#include <string_view>

namespace tandem {

/// FNV-1a.
constexpr std::uint64_t hash_of_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

/// Of times relative to `from`. A sum of products with odd numbers that look random: lists that
/// differ in a few places differ in their sums, and no product waits for another. Hashes of two
/// seeds are independent.
constexpr std::uint64_t hash_of_times(std::span<const std::int64_t> times, std::int64_t from,
                                      std::uint64_t seed = 0x9E3779B97F4A7C15u) {
  std::uint64_t hash = 0, factor = seed;
  for (const std::int64_t time : times) {
    const std::uint64_t apart = static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(from);
    hash += (apart ^ (apart >> 29u)) * (factor | 1u);
    factor = factor * 6364136223846793005u + 1442695040888963407u;
  }
  return hash;
}

}  // namespace tandem
