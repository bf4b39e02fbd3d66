#pragma once
// Slices of sequences, and of texts: what layers must know of the tokens that one op works on.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/check.h"

namespace tandem {

/// Consecutive tokens of each sample of a microbatch. Attention reads the keys and values of the
/// slices before it, and adds to the gradients of theirs.
struct Slice {
  std::int32_t tokens = 0;                 // 0: the whole sequence
  std::vector<std::int32_t> earlier = {};  // tokens of each slice before it, in order
  std::int32_t later = 0;                  // tokens behind it
  std::int32_t kept = 0;  // of a text: tokens before it, whose keys and values are kept apart

  /// Tokens before it.
  std::int32_t context() const {
    std::int32_t sum = kept;
    for (const std::int32_t length : earlier) sum += length;
    return sum;
  }
  bool is_whole() const { return earlier.empty() && kept == 0 && later == 0; }
};

/// Slices of these lengths, in order; of none one slice, the whole sequence. REQUIRES: lengths are
/// positive and add to `sequence` (checked).
inline std::vector<Slice> slices_of(std::int32_t sequence, std::span<const std::int32_t> lengths) {
  if (lengths.empty()) return {{.tokens = sequence}};
  std::vector<Slice> slices;
  std::vector<std::int32_t> earlier;
  std::int32_t left = sequence;
  for (const std::int32_t length : lengths) {
    left -= length;
    TANDEM_CHECK(length > 0 && left >= 0, length, left);
    slices.push_back({.tokens = length, .earlier = earlier, .later = left});
    earlier.push_back(length);
  }
  TANDEM_CHECK(left == 0, left, sequence);
  return slices;
}

/// What the mean loss of each slice weighs in the mean over all tokens; 1 where they are as long as
/// each other.
inline std::vector<double> loss_weights(std::int32_t sequence,
                                        std::span<const std::int32_t> lengths) {
  std::vector<double> weights;
  for (const std::int32_t length : lengths)
    weights.push_back(static_cast<double>(length) * static_cast<double>(lengths.size()) / sequence);
  return weights.empty() ? std::vector{1.0} : weights;
}

}  // namespace tandem
