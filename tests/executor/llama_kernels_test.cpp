// The kernels of Llama's layers against loops that follow their definition, in double.

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/gemm.h"
#include "executor/cpu/kernels.h"
#include "tests/executor/numbers.h"

namespace tandem::cpu {
namespace {

using testing::random_numbers;

template <class T>
class LlamaKernels : public ::testing::Test {
 protected:
  Kernels<T> kernels;
  static constexpr double kTolerance = sizeof(T) == 4 ? 2e-5 : 1e-13;

  static void expect_near(const std::vector<T>& values, const std::vector<double>& expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(static_cast<double>(values[i]), expected[i], kTolerance) << i;
  }
};
using LlamaScalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LlamaKernels, LlamaScalars);

TEST(Rotary, TurnsAreCosinesAndSines) {
  for (const double angle : {0.0, 0.3, -0.7, 1.5707963, 3.0, 4.8, -100.25, 8191.0, 1e6 + 0.125}) {
    const Turn turn = turn_by(angle);
    EXPECT_NEAR(turn.cosine, std::cos(angle), 1e-14) << angle;
    EXPECT_NEAR(turn.sine, std::sin(angle), 1e-14) << angle;
  }
}

// Llama 3.1's numbers: by hand, the wavelength of pair 20 of 64 is in the band, those of 0 and 63
// are beyond its ends.
TEST(Rotary, LongWavelengthsAreStretched) {
  TransformerShape shape{.head_width = 128};
  shape.details.rotary = {.theta = 500'000.0,
                          .scaling = RotaryScaling::llama3,
                          .factor = 8.0,
                          .low_frequency_factor = 1.0,
                          .high_frequency_factor = 4.0,
                          .original_positions = 8192};
  const Rotation scaled = rotation_of(shape);
  shape.details.rotary.scaling = RotaryScaling::none;
  const Rotation plain = rotation_of(shape);
  EXPECT_EQ(plain.frequencies[0], 1.0F);
  EXPECT_NEAR(plain.frequencies[32], 1.0 / std::sqrt(500'000.0), 1e-10);
  EXPECT_EQ(scaled.frequencies[0], plain.frequencies[0]);
  EXPECT_EQ(scaled.frequencies[63], plain.frequencies[63] / 8.0F);
  const double frequency = std::pow(500'000.0, -2.0 * 32 / 128);
  const double smooth = (8192 * frequency / (2 * M_PI) - 1.0) / 3.0;
  ASSERT_GT(smooth, 0.0);
  ASSERT_LT(smooth, 1.0);
  EXPECT_NEAR(scaled.frequencies[32], (1 - smooth) * frequency / 8 + smooth * frequency, 1e-10);
}

TYPED_TEST(LlamaKernels, RotateTurnsPairsHalfAHeadApart) {
  using T = TypeParam;
  const AttentionShape shape{
      .batch = 2, .sequence = 3, .heads = 4, .width = 24, .key_value_heads = 2};
  const auto start = random_numbers<T>(6 * shape.qkv_width(), 1);
  Rotation rotation{.first = 5};
  rotation.frequencies[0] = 1.0F;
  rotation.frequencies[1] = 0.25F;
  rotation.frequencies[2] = 0.0625F;
  std::vector<double> expected(start.begin(), start.end());
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t head = 0; head < 6; ++head) {
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t at = row * 48 + head * 6 + i;
        const double angle =
            static_cast<double>(5 + row % 3) * static_cast<double>(rotation.frequencies[i]);
        const double x = expected[at], y = expected[at + 3];
        expected[at] = x * std::cos(angle) - y * std::sin(angle);
        expected[at + 3] = y * std::cos(angle) + x * std::sin(angle);
      }
    }
  }
  std::vector<T> turned = start;
  this->kernels.rotate(shape, rotation, turned);
  this->expect_near(turned, expected);  // values are as they were: columns from 36 on
  rotation.back = true;
  this->kernels.rotate(shape, rotation, turned);
  this->expect_near(turned, std::vector<double>(start.begin(), start.end()));
}

TYPED_TEST(LlamaKernels, RmsNormAndItsGradients) {
  using T = TypeParam;
  for (const std::int64_t width : {1, 7, 16, 37}) {
    const RowShape shape{.rows = 3, .width = width};
    const auto w = static_cast<std::size_t>(width);
    const auto x = random_numbers<T>(3 * width, 1), gain = random_numbers<T>(width, 2),
               dy = random_numbers<T>(3 * width, 3), residual = random_numbers<T>(3 * width, 4);
    std::vector<T> y(x.size()), inverse(3), dx(x.size()), dgain(gain.size(), T{1});
    this->kernels.rms_norm(shape, NormForward<T>{.x = x,
                                                 .gain = gain,
                                                 .bias = {},
                                                 .mean = {},
                                                 .inverse_deviation = inverse,
                                                 .y = y,
                                                 .epsilon = 0.5});
    this->kernels.rms_norm_backward(shape, NormBackward<T>{.x = x,
                                                           .inverse_deviation = inverse,
                                                           .gain = gain,
                                                           .dy = dy,
                                                           .residual = residual,
                                                           .dx = dx});
    this->kernels.rms_norm_backward_weight(shape,
                                           NormBackwardWeight<T>{.x = x,
                                                                 .mean = {},
                                                                 .inverse_deviation = inverse,
                                                                 .dy = dy,
                                                                 .dgain = dgain,
                                                                 .dbias = {}});
    std::vector<double> y0(x.size()), dx0(x.size()), dgain0(gain.size(), 1.0);
    for (std::size_t row = 0; row < 3; ++row) {
      double square = 0.0, along = 0.0;
      for (std::size_t i = 0; i < w; ++i) square += std::pow(double{x[row * w + i]}, 2);
      const double by = 1.0 / std::sqrt(square / static_cast<double>(w) + 0.5);
      for (std::size_t i = 0; i < w; ++i) {
        const std::size_t at = row * w + i;
        y0[at] = double{x[at]} * by * double{gain[i]};
        dgain0[i] += double{dy[at]} * double{x[at]} * by;
        along += double{dy[at]} * double{gain[i]} * double{x[at]};
      }
      for (std::size_t i = 0; i < w; ++i) {
        const std::size_t at = row * w + i;
        dx0[at] =
            double{residual[at]} + by * (double{dy[at]} * double{gain[i]} -
                                         double{x[at]} * by * by * along / static_cast<double>(w));
      }
    }
    this->expect_near(y, y0);
    this->expect_near(dx, dx0);
    this->expect_near(dgain, dgain0);
  }
}

TYPED_TEST(LlamaKernels, HeadNormsAreRmsNormsOfEachHead) {
  using T = TypeParam;
  const AttentionShape shape{
      .batch = 1, .sequence = 2, .heads = 2, .width = 10, .key_value_heads = 1};
  const auto made = random_numbers<T>(2 * 20, 1), of_queries = random_numbers<T>(5, 2),
             of_keys = random_numbers<T>(5, 3), gradient = random_numbers<T>(2 * 20, 4);
  std::vector<T> qkv = made, before(2 * 15), inverse(2 * 3), dqkv = gradient, dy(2 * 15), dquery(5),
                 dkey(5);
  this->kernels.head_norm(shape, HeadNormForward<T>{.query_gain = of_queries,
                                                    .key_gain = of_keys,
                                                    .inverse_deviation = inverse,
                                                    .before = before,
                                                    .qkv = qkv,
                                                    .epsilon = 1e-3});
  this->kernels.head_norm_backward(shape, HeadNormBackward<T>{.query_gain = of_queries,
                                                              .key_gain = of_keys,
                                                              .inverse_deviation = inverse,
                                                              .before = before,
                                                              .dqkv = dqkv,
                                                              .dy = dy});
  this->kernels.head_norm_backward_weight(shape,
                                          HeadNormBackwardWeight<T>{.inverse_deviation = inverse,
                                                                    .before = before,
                                                                    .dy = dy,
                                                                    .dquery_gain = dquery,
                                                                    .dkey_gain = dkey});
  std::vector<T> qkv0 = made, dqkv0 = gradient, dquery0(5), dkey0(5);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t head = 0; head < 3; ++head) {
      const RowShape one{.rows = 1, .width = 5};
      const std::size_t at = row * 20 + head * 5;
      const auto& gain = head < 2 ? of_queries : of_keys;
      std::vector<T> by(1);
      const std::span<const T> x = std::span(made).subspan(at, 5),
                               dhead = std::span(gradient).subspan(at, 5);
      this->kernels.rms_norm(one, NormForward<T>{.x = x,
                                                 .gain = gain,
                                                 .bias = {},
                                                 .mean = {},
                                                 .inverse_deviation = by,
                                                 .y = std::span(qkv0).subspan(at, 5),
                                                 .epsilon = 1e-3});
      this->kernels.rms_norm_backward(one, NormBackward<T>{.x = x,
                                                           .inverse_deviation = by,
                                                           .gain = gain,
                                                           .dy = dhead,
                                                           .dx = std::span(dqkv0).subspan(at, 5)});
      this->kernels.rms_norm_backward_weight(
          one, NormBackwardWeight<T>{.x = x,
                                     .mean = {},
                                     .inverse_deviation = by,
                                     .dy = dhead,
                                     .dgain = head < 2 ? dquery0 : dkey0,
                                     .dbias = {}});
    }
  }
  EXPECT_EQ(qkv, qkv0);
  EXPECT_EQ(dqkv, dqkv0);
  EXPECT_EQ(dquery, dquery0);
  EXPECT_EQ(dkey, dkey0);
}

TYPED_TEST(LlamaKernels, SwigluAndItsGradientThroughAProduct) {
  using T = TypeParam;
  const std::size_t rows = 5, inner = 4, width = 19;
  const auto gate_up = random_numbers<T>(5 * 38, 1), x = random_numbers<T>(5 * 4, 2),
             w = random_numbers<T>(19 * 4, 3);
  std::vector<T> y(rows * width), gradient(rows * 2 * width);
  this->kernels.swiglu({.rows = 5, .width = 19}, gate_up, y);
  this->kernels.matmul_transposed_swiglu_backward({.rows = 5, .inner = 4, .columns = 19}, x, w,
                                                  gate_up, gradient);
  std::vector<double> y0(y.size()), gradient0(gradient.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = row * 2 * width + i;
      const double gate{gate_up[at]}, up{gate_up[at + width]};
      const double open = 1.0 / (1.0 + std::exp(-gate));
      double dy = 0.0;
      for (std::size_t k = 0; k < inner; ++k)
        dy += double{x[row * inner + k]} * double{w[i * inner + k]};
      y0[row * width + i] = gate * open * up;
      gradient0[at] = dy * up * (open + gate * open * (1.0 - open));
      gradient0[at + width] = dy * gate * open;
    }
  }
  this->expect_near(y, y0);
  this->expect_near(gradient, gradient0);
}

/// The same attention with a copy of keys and values for each head of queries.
template <class T>
std::vector<T> expanded(const AttentionShape& shape, const std::vector<T>& qkv) {
  std::vector<T> wide;
  const std::int64_t channels = shape.head_width();
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const auto* from = qkv.data() + row * shape.qkv_width();
    wide.insert(wide.end(), from, from + shape.width);
    for (const std::int64_t part : {std::int64_t{0}, shape.key_width()}) {
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        const auto* of = from + shape.width + part + shape.key_head_of(head) * channels;
        wide.insert(wide.end(), of, of + channels);
      }
    }
  }
  return wide;
}

TYPED_TEST(LlamaKernels, HeadsThatShareKeysAttendAsIfEachHadACopy) {
  using T = TypeParam;
  const AttentionShape shape{
      .batch = 2, .sequence = 70, .heads = 6, .width = 24, .key_value_heads = 2};
  AttentionShape full = shape;
  full.key_value_heads = 0;
  const std::int64_t rows = shape.rows();
  const auto qkv = random_numbers<T>(rows * shape.qkv_width(), 1);
  const auto dy = random_numbers<T>(rows * shape.width, 2);
  const auto wide = expanded(shape, qkv);
  std::vector<T> log_sum(static_cast<std::size_t>(rows * 6)), y(dy.size()), dqkv(qkv.size());
  std::vector<T> log_sum0 = log_sum, y0(dy.size()), dwide(wide.size());
  this->kernels.attention(shape, {.qkv = qkv, .log_sum = log_sum, .y = y});
  this->kernels.attention(full, {.qkv = wide, .log_sum = log_sum0, .y = y0});
  EXPECT_EQ(y, y0);
  EXPECT_EQ(log_sum, log_sum0);
  this->kernels.attention_backward(
      shape, {.qkv = qkv, .log_sum = log_sum, .y = y, .dy = dy, .dqkv = dqkv});
  this->kernels.attention_backward(
      full, {.qkv = wide, .log_sum = log_sum, .y = y, .dy = dy, .dqkv = dwide});
  std::vector<double> expected(dqkv.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < full.qkv_width(); ++i) {
      const std::int64_t part = i / 24, head = i % 24 / 4, channel = i % 4;
      const std::int64_t to = part == 0 ? i : 24 + (part - 1) * 8 + head / 3 * 4 + channel;
      expected[static_cast<std::size_t>(row * shape.qkv_width() + to)] +=
          static_cast<double>(dwide[static_cast<std::size_t>(row * full.qkv_width() + i)]);
    }
  }
  this->expect_near(dqkv, expected);
}

/// Keys and values of the first `tokens` of each sample.
template <class T>
std::vector<T> keys_and_values(const AttentionShape& shape, const std::vector<T>& qkv,
                               std::int64_t tokens) {
  std::vector<T> kept;
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    if (row % shape.sequence >= tokens) continue;
    const auto* from = qkv.data() + row * shape.qkv_width();
    kept.insert(kept.end(), from + shape.width, from + shape.qkv_width());
  }
  return kept;
}

/// Of `count` tokens of each sample those from `first` on.
template <class T>
std::vector<T> rows_of(const std::vector<T>& whole, const AttentionShape& shape, std::int64_t first,
                       std::int64_t count) {
  std::vector<T> rows;
  const std::int64_t width = std::ssize(whole) / shape.rows();
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    const auto* from = whole.data() + (sample * shape.sequence + first) * width;
    rows.insert(rows.end(), from, from + count * width);
  }
  return rows;
}

TYPED_TEST(LlamaKernels, AttendToKeptKeysWithTheBitsOfTheWholeText) {
  using T = TypeParam;
  for (const std::int64_t key_value_heads : {0, 2}) {
    const AttentionShape whole{
        .batch = 2, .sequence = 330, .heads = 6, .width = 24, .key_value_heads = key_value_heads};
    const auto qkv = random_numbers<T>(whole.rows() * whole.qkv_width(), 1);
    std::vector<T> log_sum0(static_cast<std::size_t>(whole.rows() * 6));
    std::vector<T> y0(static_cast<std::size_t>(whole.rows() * whole.width));
    this->kernels.attention(whole, {.qkv = qkv, .log_sum = log_sum0, .y = y0});
    for (const std::int64_t count : {1, 2, 64, 300}) {
      AttentionShape shape = whole;
      shape.sequence = count;
      for (const std::int64_t before : {0, 1, 63, 64, 65, 128, 255, 256, 300}) {
        if (before + count > whole.sequence) continue;
        const std::vector<T> own = rows_of(qkv, whole, before, count);
        std::vector<T> kept = keys_and_values(whole, qkv, before + count);
        std::vector<T> log_sum(static_cast<std::size_t>(shape.rows() * 6));
        std::vector<T> y(static_cast<std::size_t>(shape.rows() * whole.width));
        const AttentionForward<T> spans{.qkv = own, .log_sum = log_sum, .y = y, .kept = kept};
        this->kernels.attention(shape, spans);
        EXPECT_EQ(y, rows_of(y0, whole, before, count)) << before << " + " << count;
        // The control: a value of the first token.
        kept[static_cast<std::size_t>(whole.key_width())] += T{1};
        this->kernels.attention(shape, spans);
        EXPECT_NE(y, rows_of(y0, whole, before, count)) << before << " + " << count;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::cpu
