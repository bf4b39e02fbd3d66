#pragma once
// A permutation of 0 … n − 1 as a pure function of a key: nothing is shuffled and nothing kept.

#include <bit>
#include <cstdint>

#include "core/base/check.h"
#include "core/base/random.h"

namespace tandem {

/// Where `i` goes. A Feistel network of four rounds over the next power of four, applied until the
/// number is below `count` again (Black and Rogaway, "Ciphers with arbitrary finite domains",
/// CT-RSA 2002): four times on average at most. REQUIRES: i < count ≤ 2⁶².
inline std::uint64_t permuted(std::uint64_t seed, std::uint64_t key, std::uint64_t count,
                              std::uint64_t i) {
  TANDEM_CHECK(i < count && count <= std::uint64_t{1} << 62u, i, count);
  const auto half = static_cast<unsigned>(std::bit_width(count - 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = i >> half, right = i & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(seed, key + round, right) & mask);
      left = right;
      right = mixed;
    }
    i = left << half | right;
  } while (i >= count);
  return i;
}

}  // namespace tandem
