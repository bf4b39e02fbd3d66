#pragma once
// The next token of a text that a model goes on with, as a pure function of its logits, the seed
// and the token's place: the same on any layout, and whatever was generated before in the process.

#include <cstdint>
#include <span>

namespace tandem {

struct SamplingConfig {
  /// Logits are divided by it; 0: the likeliest token.
  double temperature = 0.0;
  /// Only so many of the likeliest; 0: all.
  std::int32_t top_k = 0;
  std::uint64_t seed = 1;
};

/// The token at `position` of the text. Of equal logits the lower token is the likelier: ties are
/// never broken by chance. Throws InputError where a logit is NaN, or none is finite or +∞.
/// REQUIRES: logits not empty; temperature finite, ≥ 0; top_k ≥ 0.
std::int32_t next_token(std::span<const float> logits, std::int64_t position,
                        const SamplingConfig& config);

}  // namespace tandem
