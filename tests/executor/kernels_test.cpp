// The kernels against loops written another way: as their definition says, one element at a time,
// in double.

#include "executor/cpu/kernels.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/arithmetic.h"
#include "executor/cpu/gemm.h"
#include "tests/executor/numbers.h"

namespace tandem::cpu {
namespace {

using testing::random_numbers;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
  }
  return worst;
}

template <class T>
std::vector<double> widen(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
class KernelsOf : public ::testing::Test {
 protected:
  Kernels<T> kernels;
  // Sums of up to a few hundred terms of order one.
  static constexpr double kTolerance = sizeof(T) == 4 ? 2e-5 : 1e-13;
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsOf, Scalars);

TYPED_TEST(KernelsOf, MultipliesInAscendingOrderWhateverTheInstructionSet) {
  using T = TypeParam;
  const std::vector<std::vector<std::int64_t>> shapes{{1, 1, 1},      {5, 3, 7},     {6, 128, 16},
                                                      {13, 129, 257}, {64, 300, 33}, {70, 1, 260},
                                                      {1, 131, 2100}, {1, 66, 70},   {1, 3, 1}};
  for (const auto& shape : shapes) {
    const std::int64_t rows = shape[0], inner = shape[1], columns = shape[2];
    const std::vector<T> a = random_numbers<T>(rows * inner, 1);
    const std::vector<T> b = random_numbers<T>(inner * columns, 2);
    const std::vector<T> start = random_numbers<T>(rows * columns, 3);
    for (const bool transposed : {false, true}) {
      std::vector<T> twice_rounded = start, fused = start;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          for (std::int64_t k = 0; k < inner; ++k) {
            const T left = a[at(transposed ? k * rows + i : i * inner + k)];
            const T right = b[at(transposed ? j * inner + k : k * columns + j)];
            twice_rounded[at(i * columns + j)] += left * right;
            fused[at(i * columns + j)] = std::fma(left, right, fused[at(i * columns + j)]);
          }
        }
      }
      for (const GemmVariant<T>& variant : gemm_variants<T>()) {
        const std::vector<T>& expected = variant.fused ? fused : twice_rounded;
        std::vector<T> c = start;
        variant.run(Gemm<T>{.rows = rows,
                            .inner = inner,
                            .columns = columns,
                            .a = a.data(),
                            .a_row = transposed ? 1 : inner,
                            .a_inner = transposed ? rows : 1,
                            .b = b.data(),
                            .b_inner = transposed ? 1 : columns,
                            .b_column = transposed ? inner : 1,
                            .c = c.data(),
                            .c_row = columns});
        EXPECT_EQ(c, expected) << variant.name << " " << rows << "x" << inner << "x" << columns;
      }
    }
  }
}

TYPED_TEST(KernelsOf, MatmulFormsAgreeWithTheirDefinitions) {
  using T = TypeParam;
  const MatmulShape shape{.rows = 7, .inner = 5, .columns = 9};
  const auto x = random_numbers<T>(7 * 5, 1), w = random_numbers<T>(5 * 9, 2);
  const auto bias = random_numbers<T>(9, 3), dy = random_numbers<T>(7 * 9, 4);
  const auto flipped = random_numbers<T>(9 * 5, 5);
  std::vector<T> y(63), z(63), dw(45, T{1}), db(9, T{2});
  this->kernels.matmul(shape, x, w, bias, y);
  this->kernels.matmul_transposed(shape, x, flipped, z);
  this->kernels.accumulate_product(shape, x, dy, dw);
  this->kernels.accumulate_rows({.rows = 7, .width = 9}, dy, db);
  std::vector<double> y0(63), z0(63), dw0(45, 1.0), db0(9, 2.0);
  for (std::size_t i = 0; i < 7; ++i) {
    for (std::size_t j = 0; j < 9; ++j) {
      y0[i * 9 + j] = static_cast<double>(bias[j]);
      db0[j] += static_cast<double>(dy[i * 9 + j]);
      for (std::size_t k = 0; k < 5; ++k) {
        const double left = static_cast<double>(x[i * 5 + k]);
        y0[i * 9 + j] += left * static_cast<double>(w[k * 9 + j]);
        z0[i * 9 + j] += left * static_cast<double>(flipped[j * 5 + k]);
        dw0[k * 9 + j] += left * static_cast<double>(dy[i * 9 + j]);
      }
    }
  }
  EXPECT_LT(largest_difference(y, y0), this->kTolerance);
  EXPECT_LT(largest_difference(z, z0), this->kTolerance);
  EXPECT_LT(largest_difference(dw, dw0), this->kTolerance);
  EXPECT_LT(largest_difference(db, db0), this->kTolerance);
}

// A sum in ascending order does not know where microbatches end. Other engines' orders may.
TYPED_TEST(KernelsOf, PortableWeightGradientsDoNotDependOnHowRowsAreCut) {
  using T = TypeParam;
  const Kernels<T> portable(gemm<T>);
  const auto x = random_numbers<T>(40 * 12, 1), dy = random_numbers<T>(40 * 20, 2);
  std::vector<T> whole(240), parts(240);
  portable.accumulate_product({.rows = 40, .inner = 12, .columns = 20}, x, dy, whole);
  for (std::size_t first = 0; first < 40; first += 10) {
    portable.accumulate_product({.rows = 10, .inner = 12, .columns = 20},
                                std::span(x).subspan(first * 12, 120),
                                std::span(dy).subspan(first * 20, 200), parts);
  }
  EXPECT_EQ(whole, parts);
}

TYPED_TEST(KernelsOf, NormalisesRows) {
  using T = TypeParam;
  const std::size_t rows = 3, width = 37;
  const RowShape shape{.rows = 3, .width = 37};
  const auto x = random_numbers<T>(111, 1, 3.0), gain = random_numbers<T>(37, 2),
             bias = random_numbers<T>(37, 3);
  std::vector<T> y(111), mean(3), inverse(3);
  this->kernels.layer_norm(
      shape,
      NormForward<T>{
          .x = x, .gain = gain, .bias = bias, .mean = mean, .inverse_deviation = inverse, .y = y});
  std::vector<double> expected;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < width; ++i) {
      sum += static_cast<double>(x[row * width + i]);
    }
    for (std::size_t i = 0; i < width; ++i) {
      squares += std::pow(static_cast<double>(x[row * width + i]) - sum / 37.0, 2);
    }
    for (std::size_t i = 0; i < width; ++i) {
      expected.push_back((static_cast<double>(x[row * width + i]) - sum / 37.0) /
                             std::sqrt(squares / 37.0 + 1e-5) * static_cast<double>(gain[i]) +
                         static_cast<double>(bias[i]));
    }
  }
  EXPECT_LT(largest_difference(y, expected), this->kTolerance);
}

TEST(Exponential, IsAccurateAndSaturates) {
  double worst = 0.0;
  for (int i = -59990; i <= 59990; ++i) {
    const float x = static_cast<float>(i) * 1e-3F;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exponential(x)) / exact - 1.0));
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(exponential(0.0F), 1.0F);
  EXPECT_EQ(exponential(-1e30F), exponential(-60.0F));
  EXPECT_EQ(exponential(std::numeric_limits<float>::infinity()), exponential(60.0F));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TYPED_TEST(KernelsOf, GeluIsTheTanhFormAndItsSlope) {
  using T = TypeParam;
  const auto x = random_numbers<T>(100, 1, 4.0), dy = random_numbers<T>(100, 2);
  std::vector<T> y(100), dx = dy;
  this->kernels.gelu(x, y);
  this->kernels.gelu_backward(x, dx, dx);
  std::vector<double> y0, dx0;
  const double root = std::sqrt(2.0 / 3.14159265358979323846);
  for (std::size_t i = 0; i < 100; ++i) {
    const double v = static_cast<double>(x[i]);
    const double t = std::tanh(root * (v + 0.044715 * v * v * v));
    y0.push_back(0.5 * v * (1.0 + t));
    dx0.push_back(
        static_cast<double>(dy[i]) *
        (0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * v * v)));
  }
  EXPECT_LT(largest_difference(y, y0), this->kTolerance);
  EXPECT_LT(largest_difference(dx, dx0), this->kTolerance);
}

struct Attended {
  std::vector<double> y, dqkv;
};

/// Attention and its gradient from the whole matrix of probabilities.
Attended attend_by_definition(const AttentionShape& shape, const std::vector<double>& qkv,
                              const std::vector<double>& dy) {
  const std::int64_t channels = shape.width / shape.heads, row = 3 * shape.width;
  const double scale = 1.0 / std::sqrt(static_cast<double>(channels));
  Attended result{std::vector<double>(dy.size()), std::vector<double>(qkv.size())};
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const auto place = [&](std::int64_t token, std::int64_t part, std::int64_t c) {
        return at((sample * shape.sequence + token) * row + part * shape.width + head * channels +
                  c);
      };
      const auto out = [&](std::int64_t token, std::int64_t c) {
        return at((sample * shape.sequence + token) * shape.width + head * channels + c);
      };
      for (std::int64_t i = 0; i < shape.sequence; ++i) {
        std::vector<double> p(at(i + 1)), dp(at(i + 1));
        double sum = 0.0, mean = 0.0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0.0;
          for (std::int64_t c = 0; c < channels; ++c) {
            score += qkv[place(i, 0, c)] * qkv[place(j, 1, c)];
          }
          sum += p[at(j)] = std::exp(score * scale);
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          p[at(j)] /= sum;
          for (std::int64_t c = 0; c < channels; ++c) {
            result.y[out(i, c)] += p[at(j)] * qkv[place(j, 2, c)];
            dp[at(j)] += dy[out(i, c)] * qkv[place(j, 2, c)];
            result.dqkv[place(j, 2, c)] += p[at(j)] * dy[out(i, c)];
          }
          mean += p[at(j)] * dp[at(j)];
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          const double dscore = p[at(j)] * (dp[at(j)] - mean) * scale;
          for (std::int64_t c = 0; c < channels; ++c) {
            result.dqkv[place(i, 0, c)] += dscore * qkv[place(j, 1, c)];
            result.dqkv[place(j, 1, c)] += dscore * qkv[place(i, 0, c)];
          }
        }
      }
    }
  }
  return result;
}

TYPED_TEST(KernelsOf, AttendsInBlocksAsInOnePiece) {
  using T = TypeParam;
  for (const std::int64_t sequence : {1, 5, 64, 65, 150}) {
    for (const std::int64_t heads : {1, 3}) {
      const AttentionShape shape{.batch = 2, .sequence = sequence, .heads = heads, .width = 12};
      const std::int64_t rows = 2 * sequence;
      const auto qkv = random_numbers<T>(rows * 36, 1), dy = random_numbers<T>(rows * 12, 2);
      std::vector<T> log_sum(at(rows * heads)), y(dy.size()), dqkv(qkv.size(), T{7});
      this->kernels.attention(shape, AttentionForward<T>{.qkv = qkv, .log_sum = log_sum, .y = y});
      this->kernels.attention_backward(
          shape,
          AttentionBackward<T>{.qkv = qkv, .log_sum = log_sum, .y = y, .dy = dy, .dqkv = dqkv});
      const Attended expected = attend_by_definition(shape, widen(qkv), widen(dy));
      EXPECT_LT(largest_difference(y, expected.y), this->kTolerance) << sequence;
      EXPECT_LT(largest_difference(dqkv, expected.dqkv), this->kTolerance) << sequence;
    }
  }
}

TYPED_TEST(KernelsOf, AttentionNeverLooksAhead) {
  using T = TypeParam;
  const AttentionShape shape{.batch = 1, .sequence = 100, .heads = 2, .width = 8};
  auto qkv = random_numbers<T>(2400, 1);
  std::vector<T> log_sum(200), before(800), after(800);
  this->kernels.attention(shape, AttentionForward<T>{.qkv = qkv, .log_sum = log_sum, .y = before});
  const std::size_t changed = 70;
  for (std::size_t i = changed * 24; i < qkv.size(); ++i) {
    qkv[i] += T{1};
  }
  this->kernels.attention(shape, AttentionForward<T>{.qkv = qkv, .log_sum = log_sum, .y = after});
  for (std::size_t i = 0; i < changed * 8; ++i) {
    ASSERT_EQ(before[i], after[i]) << i;
  }
  EXPECT_NE(before[changed * 8], after[changed * 8]);
}

TYPED_TEST(KernelsOf, EmbeddingGradientsOfARepeatedTokenAddUp) {
  using T = TypeParam;
  const AttentionShape shape{.batch = 2, .sequence = 2, .heads = 1, .width = 2};
  const std::vector<std::int32_t> tokens{1, 0, 1, 1};
  const std::vector<T> table{1, 2, 3, 4}, positions{10, 20, 30, 40};
  std::vector<T> kept(4), y(8), dtable(4), dpositions(4);
  this->kernels.keep_tokens(tokens, kept);
  this->kernels.embed(shape, kept, table, positions, y);
  EXPECT_EQ(y, (std::vector<T>{13, 24, 31, 42, 13, 24, 33, 44}));
  this->kernels.embed_backward(shape, kept, y, dtable, dpositions);
  EXPECT_EQ(dtable, (std::vector<T>{31, 42, 59, 92}));
  EXPECT_EQ(dpositions, (std::vector<T>{26, 48, 64, 86}));
}

TYPED_TEST(KernelsOf, CrossEntropyIsLogOfTheSoftmax) {
  using T = TypeParam;
  const auto logits = random_numbers<T>(4 * 50, 1, 3.0);
  const std::vector<std::int32_t> targets{0, 49, 7, 20};
  std::vector<T> gradient = logits;
  double loss = 0.0;
  this->kernels.cross_entropy({.rows = 4, .width = 50}, targets, 0.25, gradient, &loss);
  double expected_loss = 0.0;
  std::vector<double> expected;
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 50; ++i) {
      sum += std::exp(static_cast<double>(logits[row * 50 + i]));
    }
    const auto target = static_cast<std::size_t>(targets[row]);
    expected_loss -= std::log(std::exp(static_cast<double>(logits[row * 50 + target])) / sum) / 4.0;
    for (std::size_t i = 0; i < 50; ++i) {
      const double p = std::exp(static_cast<double>(logits[row * 50 + i])) / sum;
      expected.push_back(0.25 * (p - (i == target ? 1.0 : 0.0)));
    }
  }
  EXPECT_NEAR(loss, expected_loss, this->kTolerance);
  EXPECT_LT(largest_difference(gradient, expected), this->kTolerance);
}

TYPED_TEST(KernelsOf, CrossEntropySurvivesHugeLogits) {
  using T = TypeParam;
  std::vector<T> logits{T{1e4}, T{-1e4}, T{0}};
  const std::vector<std::int32_t> targets{1};
  double loss = 0.0;
  this->kernels.cross_entropy({.rows = 1, .width = 3}, targets, 1.0, logits, &loss);
  EXPECT_NEAR(loss, 2e4, 1e-9);
  EXPECT_NEAR(static_cast<double>(logits[0]), 1.0, 1e-6);
  EXPECT_NEAR(static_cast<double>(logits[1]), -1.0, 1e-6);
}

TYPED_TEST(KernelsOf, SquaredErrorIsExactOnSmallIntegers) {
  using T = TypeParam;
  const std::vector<T> y{1, 2, 3, 4}, expected{0, 4, 3, 1};
  std::vector<T> gradient(4);
  double loss = 0.0;
  this->kernels.squared_error({.rows = 2, .width = 2}, y, expected, 0.5, gradient, &loss);
  EXPECT_EQ(loss, 3.5);
  EXPECT_EQ(gradient, (std::vector<T>{T{0.5}, -1, 0, T{1.5}}));
}

TEST(KernelsDeathTest, AbortOnSpansOfTheWrongSize) {
  const Kernels<float> kernels;
  std::vector<float> x(6), w(6), y(3);
  EXPECT_DEATH(kernels.matmul({.rows = 2, .inner = 3, .columns = 2}, x, w, {}, y),
               "check failed.*values: 3 4");
  const std::vector<std::int32_t> tokens{-1};
  EXPECT_DEATH(kernels.keep_tokens(tokens, std::span(y).first(1)), "check failed.*values: -1");
}

}  // namespace
}  // namespace tandem::cpu
