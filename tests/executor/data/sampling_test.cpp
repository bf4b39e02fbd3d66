#include "executor/data/sampling.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/core/error_of.h"

namespace tandem {
namespace {

using testing::error_of;
using Logits = std::vector<float>;

/// How often each token is drawn at the positions 0 … draws − 1.
std::vector<int> counts(const Logits& logits, int draws, const SamplingConfig& config) {
  std::vector<int> count(logits.size());
  for (int i = 0; i < draws; ++i) {
    ++count[static_cast<std::size_t>(next_token(logits, i, config))];
  }
  return count;
}

TEST(Sampling, WithoutTemperatureTakesTheFirstOfTheLikeliest) {
  const Logits logits{1, 7, -3, 7, 0};
  EXPECT_EQ(next_token(logits, 0, {}), 1);
  EXPECT_EQ(counts(logits, 100, {.temperature = 2, .top_k = 1}),
            (std::vector<int>{0, 100, 0, 0, 0}));
}

// Each count within 6 standard deviations of a binomial distribution: by chance beyond once in
// 10⁹.
TEST(Sampling, DrawsByTheSoftmax) {
  const Logits logits{0.5F, -1.0F, 2.0F, 0.0F};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    constexpr int kDraws = 20'000;
    const auto count = counts(logits, kDraws, {.temperature = temperature, .seed = 9});
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const double share = std::exp(logits[token] / temperature) / sum;
      EXPECT_NEAR(count[token], kDraws * share, 6 * std::sqrt(kDraws * share * (1 - share)));
    }
  }
}

TEST(Sampling, TakesNoneButTheLikeliestK) {
  const Logits logits{0, 3, 3, 3, 1, 2};  // of the three that are equal the lower two
  const auto count = counts(logits, 4000, {.temperature = 5, .top_k = 2});
  EXPECT_EQ(count[1] + count[2], 4000);
  EXPECT_GT(count[1], 1500);
  EXPECT_GT(count[2], 1500);
  EXPECT_EQ(counts(logits, 500, {.temperature = 5, .top_k = 6}),
            counts(logits, 500, {.temperature = 5}));
  EXPECT_EQ(counts(logits, 500, {.temperature = 5, .top_k = 100}),
            counts(logits, 500, {.temperature = 5}));
}

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  Logits logits(50);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  int equal_seeds = 0, equal_positions = 0;
  for (int i = 0; i < 200; ++i) {
    const std::int32_t token = next_token(logits, i, {.temperature = 4, .seed = 3});
    EXPECT_EQ(next_token(logits, i, {.temperature = 4, .seed = 3}), token);
    equal_seeds += next_token(logits, i, {.temperature = 4, .seed = 4}) == token ? 1 : 0;
    equal_positions += next_token(logits, i + 1, {.temperature = 4, .seed = 3}) == token ? 1 : 0;
  }
  EXPECT_LT(equal_seeds, 30);
  EXPECT_LT(equal_positions, 30);
}

TEST(Sampling, OfInfinitiesAndWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(next_token(Logits{1, kInfinity, 2}, 0, {.temperature = 1}), 1);
  EXPECT_EQ(counts(Logits{-kInfinity, 0, -kInfinity}, 100, {.temperature = 1})[1], 100);
  EXPECT_EQ(counts(Logits{3e38F, -3e38F}, 100, {.temperature = 1e-300})[0], 100);
  EXPECT_EQ(error_of([&] { next_token(Logits{0, std::nanf("")}, 0, {}); }),
            "the logit of token 1 is not a number");
  EXPECT_EQ(error_of([&] { next_token(Logits{-kInfinity}, 0, {.temperature = 1}); }),
            "no token has a logit above minus infinity");
}

}  // namespace
}  // namespace tandem
