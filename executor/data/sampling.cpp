#include "executor/data/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/random.h"

namespace tandem {
namespace {

constexpr std::uint64_t kTokenKey = key_of("sampling.token");

void check_logits(std::span<const float> logits) {
  TANDEM_CHECK(!logits.empty());
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (std::isnan(logits[token]))
      throw InputError(fmt::format("the logit of token {} is not a number", token));
  }
}

}  // namespace

std::int32_t next_token(std::span<const float> logits, std::int64_t position,
                        const SamplingConfig& config) {
  check_logits(logits);
  TANDEM_CHECK(config.temperature >= 0 && std::isfinite(config.temperature) && config.top_k >= 0,
               config.temperature, config.top_k);
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  const double most = *likeliest;
  if (most == -std::numeric_limits<double>::infinity())
    throw InputError("no token has a logit above minus infinity");
  const auto best = static_cast<std::int32_t>(likeliest - logits.begin());
  if (config.temperature == 0 || config.top_k == 1 || std::isinf(most)) return best;

  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float one = logits[static_cast<std::size_t>(a)],
                other = logits[static_cast<std::size_t>(b)];
    return one > other || (one == other && a < b);
  };
  const auto kept = static_cast<std::size_t>(config.top_k);
  if (kept > 0 && kept < tokens.size()) {
    std::nth_element(tokens.begin(), tokens.begin() + config.top_k, tokens.end(), likelier);
    tokens.resize(kept);
    std::sort(tokens.begin(), tokens.end());  // so that sums have one order
  }
  std::vector<double> sums;
  double sum = 0.0;
  for (const std::int32_t token : tokens) {
    sum += std::exp((double{logits[static_cast<std::size_t>(token)]} - most) / config.temperature);
    sums.push_back(sum);
  }
  const double drawn =
      uniform(random_bits(config.seed, kTokenKey, static_cast<std::uint64_t>(position))) * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end(), drawn);
  TANDEM_CHECK(found != sums.end(), drawn, sum);
  return tokens[static_cast<std::size_t>(found - sums.begin())];
}

}  // namespace tandem
