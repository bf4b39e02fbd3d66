// Attention over slices in exact arithmetic: the kernels' own loops on rationals give the numbers
// of the whole sequence for every slicing. For that e is 2 here and scores are whole numbers, so
// that softmax is a rational function; each gradient through it lacks the same factor, ln 2.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "executor/cpu/attention_blocks.h"

namespace tandem::exact {

using Rational = boost::multiprecision::cpp_rational;

/// plain + log₂(power). Only what is exact is defined; all else throws.
class Number {
 public:
  Number() = default;
  explicit Number(double plain) : plain_(plain) {}
  Number(Rational plain, Rational power) : plain_(std::move(plain)), power_(std::move(power)) {}

  const Rational& plain() const {
    if (power_ != 1) throw std::logic_error("a logarithm is no rational number");
    return plain_;
  }
  friend Number operator+(const Number& a, const Number& b) {
    return {a.plain_ + b.plain_, a.power_ * b.power_};
  }
  friend Number operator-(const Number& a) { return {-a.plain_, 1 / a.power_}; }
  friend Number operator-(const Number& a, const Number& b) { return a + -b; }
  friend Number operator*(const Number& a, const Number& b) { return {a.plain() * b.plain(), 1}; }
  friend Number operator/(const Number& a, const Number& b) { return {a.plain() / b.plain(), 1}; }
  Number& operator+=(const Number& other) { return *this = *this + other; }
  Number& operator*=(const Number& other) { return *this = *this * other; }
  friend bool operator==(const Number&, const Number&) = default;
  friend bool operator<(const Number& a, const Number& b) { return a.plain() < b.plain(); }
  friend bool operator>(const Number& a, const Number& b) { return b < a; }

  friend Number fused(const Number& a, const Number& b, const Number& c) { return a * b + c; }
  friend Number log(const Number& a) { return {0, a.plain()}; }
  friend Number exponential(const Number& a) {
    if (denominator(a.plain_) != 1) throw std::logic_error("a power that is not whole");
    const auto exponent = static_cast<int>(numerator(a.plain_));
    const Rational two(boost::multiprecision::cpp_int(1) << std::abs(exponent));
    const Rational power = exponent < 0 ? Rational(1 / two) : two;
    return {a.power_ * power, 1};
  }

 private:
  Rational plain_ = 0, power_ = 1;
};

}  // namespace tandem::exact

template <>
struct std::numeric_limits<tandem::exact::Number> {
  static tandem::exact::Number lowest() { return tandem::exact::Number(-1e9); }
};

namespace tandem {

// Blocks end within the sequence.
template <>
inline constexpr std::int64_t cpu::kQueries<exact::Number> = 3;
template <>
inline constexpr std::int64_t cpu::kKeys<exact::Number> = 2;

namespace exact {
namespace {

using Numbers = std::vector<Number>;
using Lengths = std::vector<std::int64_t>;

void multiply(const cpu::Gemm<Number>& of) {
  for (std::int64_t i = 0; i < of.rows; ++i) {
    for (std::int64_t j = 0; j < of.columns; ++j) {
      Number& sum = of.c[i * of.c_row + j];
      if (!of.adds) sum = Number();
      for (std::int64_t k = 0; k < of.inner; ++k)
        sum += of.a[i * of.a_row + k * of.a_inner] * of.b[k * of.b_inner + j * of.b_column];
    }
  }
}

/// Of a whole sequence: rows of queries, keys and values, what attention makes of them, and the
/// gradients of both. Heads have four channels: scores are halved.
struct Attended {
  AttentionShape shape;
  Numbers qkv, y, dy, dqkv;
};

Attended random_case(std::int64_t key_heads) {
  Attended all{
      .shape = {.batch = 2, .sequence = 5, .heads = 4, .width = 16, .key_value_heads = key_heads},
      .qkv = {},
      .y = {},
      .dy = {},
      .dqkv = {}};
  const AttentionShape& shape = all.shape;
  const auto whole = [](std::uint64_t stream, std::int64_t i) {
    const std::uint64_t bits = random_bits(3, stream, static_cast<std::uint64_t>(i));
    return Number(static_cast<double>(bits % 5) - 2.0);
  };
  for (std::int64_t i = 0; i < shape.rows() * shape.qkv_width(); ++i) {
    const std::int64_t column = i % shape.qkv_width();
    const bool is_key = column >= shape.width && column < shape.width + shape.key_width();
    all.qkv.push_back(is_key ? Number(2.0) * whole(1, i) : whole(1, i));
  }
  for (std::int64_t i = 0; i < shape.rows() * shape.width; ++i) all.dy.push_back(whole(2, i));
  all.y.resize(all.dy.size());
  all.dqkv.resize(all.qkv.size());
  return all;
}

/// By the definition, without slices or blocks: y = Σ w·v, w = 2^s / Σ 2^s, s = q·k / 2.
void attend_by_definition(Attended& all) {
  const AttentionShape& shape = all.shape;
  const std::int64_t channels = shape.head_width(), row = shape.qkv_width();
  for (std::int64_t at = 0; at < shape.rows() * shape.heads; ++at) {
    const std::int64_t head = at % shape.heads, query = at / shape.heads;
    const std::int64_t first = query / shape.sequence * shape.sequence;
    const std::int64_t key = shape.width + shape.key_head_of(head) * channels;
    const auto place = [=](std::int64_t token, std::int64_t column) {
      return static_cast<std::size_t>(token * row + column);
    };
    const auto out = [&](std::int64_t c) {
      return static_cast<std::size_t>(query * shape.width + head * channels + c);
    };
    Numbers weights;
    Number sum;
    for (std::int64_t token = first; token <= query; ++token) {
      Number score;
      for (std::int64_t c = 0; c < channels; ++c)
        score += all.qkv[place(query, head * channels + c)] * all.qkv[place(token, key + c)];
      sum += weights.emplace_back(exponential(score * Number(0.5)));
    }
    Number along;  // Σ dy·y
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t token = first; token <= query; ++token) {
        all.y[out(c)] += weights[static_cast<std::size_t>(token - first)] / sum *
                         all.qkv[place(token, key + shape.key_width() + c)];
      }
      along += all.y[out(c)] * all.dy[out(c)];
    }
    for (std::int64_t token = first; token <= query; ++token) {
      const Number weight = weights[static_cast<std::size_t>(token - first)] / sum;
      Number slope = -along;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::size_t value = place(token, key + shape.key_width() + c);
        slope += all.dy[out(c)] * all.qkv[value];
        all.dqkv[value] += weight * all.dy[out(c)];
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::size_t q = place(query, head * channels + c), k = place(token, key + c);
        all.dqkv[q] += weight * slope * Number(0.5) * all.qkv[k];
        all.dqkv[k] += weight * slope * Number(0.5) * all.qkv[q];
      }
    }
  }
}

enum class Fault {
  none,
  loses_keys,      // what later slices add to the gradients of keys
  loses_values,    // and of values
  ascends,         // backwards in the order of forwards
  masks_by_place,  // a query sees as many tokens before its slice as before it in the slice
};

/// Rows of some tokens of every sample.
struct Tokens {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
};
Numbers cut(const Attended& all, const Numbers& rows, Tokens tokens) {
  const std::int64_t width = std::ssize(rows) / all.shape.rows();
  Numbers part;
  for (std::int64_t sample = 0; sample < all.shape.batch; ++sample) {
    const auto begin = rows.begin() + sample * all.shape.sequence * width;
    part.insert(part.end(), begin + tokens.first * width, begin + tokens.last * width);
  }
  return part;
}
void paste(const Numbers& part, Tokens tokens, const AttentionShape& shape, Numbers& rows) {
  const std::int64_t width = std::ssize(rows) / shape.rows();
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    std::copy_n(part.begin() + sample * tokens.size() * width, tokens.size() * width,
                rows.begin() + (sample * shape.sequence + tokens.first) * width);
  }
}

std::vector<Tokens> tokens_of(const Lengths& lengths) {
  std::vector<Tokens> slices;
  for (const std::int64_t length : lengths) {
    const std::int64_t first = slices.empty() ? 0 : slices.back().last;
    slices.push_back({first, first + length});
  }
  return slices;
}

/// Fills y and dqkv by the kernels, slice by slice, as attention layers call them.
class SlicedAttention {
 public:
  SlicedAttention(Attended& all, const Lengths& lengths, Fault fault)
      : all_(all), slices_(tokens_of(lengths)), fault_(fault) {
    for (const Tokens slice : slices_) qkv_.push_back(cut(all, all.qkv, slice));
    log_sums_.resize(slices_.size());
  }

  void run() {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      log_sums_[i] = forward(slices_[i], earlier_of(i));
      for (Tokens at = slices_[i]; fault_ == Fault::masks_by_place && at.first < at.last;
           ++at.first)
        forward_of_place(slices_[i], at.first);
    }
    if (slices_.size() > 1)
      context_.assign(static_cast<std::size_t>(all_.shape.rows() * 2 * all_.shape.key_width()),
                      Number());
    for (std::size_t i = 0; i < slices_.size(); ++i)
      backward(fault_ == Fault::ascends ? i : slices_.size() - 1 - i);
  }

 private:
  using Earlier = std::vector<std::span<const Number>>;
  Earlier earlier_of(std::size_t slice) const {
    return {qkv_.begin(), qkv_.begin() + static_cast<std::ptrdiff_t>(slice)};
  }
  AttentionShape shape_of(Tokens slice) const {
    AttentionShape shape = all_.shape;
    shape.sequence = slice.size();
    return shape;
  }
  Numbers forward(Tokens slice, const Earlier& earlier) {
    const AttentionShape shape = shape_of(slice);
    Numbers log_sum(static_cast<std::size_t>(shape.rows() * shape.heads));
    Numbers y(static_cast<std::size_t>(shape.rows() * shape.width), Number(99.0));
    const Numbers qkv = cut(all_, all_.qkv, slice);
    cpu::attend<Number>(shape, {.qkv = qkv, .log_sum = log_sum, .y = y, .earlier = earlier},
                        multiply);
    paste(y, slice, all_.shape, all_.y);
    return log_sum;
  }
  void forward_of_place(Tokens slice, std::int64_t query) {
    std::vector<Numbers> seen;
    for (const Tokens part :
         {Tokens{0, std::min(query - slice.first, slice.first)}, Tokens{slice.first, query}}) {
      if (part.size() > 0) seen.push_back(cut(all_, all_.qkv, part));
    }
    forward({query, query + 1}, {seen.begin(), seen.end()});
  }
  void backward(std::size_t i) {
    const AttentionShape shape = shape_of(slices_[i]);
    const Numbers y = cut(all_, all_.y, slices_[i]), dy = cut(all_, all_.dy, slices_[i]);
    Numbers dqkv(qkv_[i].size(), Number(99.0));
    const Earlier earlier = earlier_of(i);
    cpu::attend_backward<Number>(shape,
                                 {.qkv = qkv_[i],
                                  .log_sum = log_sums_[i],
                                  .y = y,
                                  .dy = dy,
                                  .dqkv = dqkv,
                                  .earlier = earlier,
                                  .context_gradient = context_},
                                 multiply);
    paste(dqkv, slices_[i], all_.shape, all_.dqkv);
    const auto width = static_cast<std::size_t>(shape.key_width());
    for (std::size_t at = 0; at < context_.size(); ++at) {
      const bool is_key = at % (2 * width) < width;
      if (fault_ == (is_key ? Fault::loses_keys : Fault::loses_values)) context_[at] = Number();
    }
  }

  Attended& all_;
  std::vector<Tokens> slices_;
  Fault fault_;
  std::vector<Numbers> qkv_, log_sums_;
  Numbers context_;
};

Attended attended_in(const Lengths& lengths, std::int64_t key_heads, Fault fault = Fault::none) {
  Attended all = random_case(key_heads);
  SlicedAttention(all, lengths, fault).run();
  return all;
}

Attended whole_of(std::int64_t key_heads) {
  Attended all = random_case(key_heads);
  attend_by_definition(all);
  return all;
}

/// Of five tokens, one slice first: bit i of `cuts` ends a slice behind token i.
std::vector<Lengths> all_slicings() {
  std::vector<Lengths> all;
  for (unsigned cuts = 0; cuts < 16; ++cuts) {
    Lengths lengths{1};
    for (unsigned token = 0; token < 4; ++token) {
      if ((cuts >> token & 1) != 0) lengths.push_back(0);
      ++lengths.back();
    }
    all.push_back(lengths);
  }
  return all;
}

/// Numbers in the columns [first, last) of the rows of these tokens.
Numbers columns(const Attended& all, Tokens tokens, std::int64_t first, std::int64_t last) {
  const std::int64_t width = all.shape.qkv_width();
  Numbers numbers;
  const Numbers rows = cut(all, all.dqkv, tokens);
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    if (i % width >= first && i % width < last)
      numbers.push_back(rows[static_cast<std::size_t>(i)]);
  }
  return numbers;
}

TEST(ExactAttention, OverSlicesIsThatOfTheWhole) {
  for (const std::int64_t key_heads : {1, 2, 4}) {
    const Attended whole = whole_of(key_heads);
    for (const Lengths& lengths : all_slicings()) {
      const Attended sliced = attended_in(lengths, key_heads);
      EXPECT_TRUE(sliced.y == whole.y) << key_heads << " " << ::testing::PrintToString(lengths);
      EXPECT_TRUE(sliced.dqkv == whole.dqkv)
          << key_heads << " " << ::testing::PrintToString(lengths);
    }
  }
}

// Negative controls. The last slice and the gradients of queries lack nothing; nor does one slice.
TEST(ExactAttention, TellsWhatIsLostBetweenSlices) {
  const Attended whole = whole_of(2);
  const std::int64_t q = whole.shape.width, k = q + whole.shape.key_width();
  const std::int64_t v = whole.shape.qkv_width();
  for (const Lengths& lengths : all_slicings()) {
    const Tokens last{5 - lengths.back(), 5}, before{0, 5 - lengths.back()};
    const bool one = lengths.size() == 1;
    for (const Fault fault : {Fault::loses_keys, Fault::loses_values, Fault::ascends}) {
      const Attended wrong = attended_in(lengths, 2, fault);
      const auto agree = [&](Tokens tokens, std::int64_t first, std::int64_t end) {
        return columns(wrong, tokens, first, end) == columns(whole, tokens, first, end);
      };
      EXPECT_TRUE(wrong.y == whole.y);
      EXPECT_TRUE(agree({0, 5}, 0, q) && agree(last, 0, v));
      EXPECT_EQ(agree(before, q, k), one || fault == Fault::loses_values);
      EXPECT_EQ(agree(before, k, v), one || fault == Fault::loses_keys);
    }
  }
}

TEST(ExactAttention, TellsAMaskByThePlaceInTheSlice) {
  const Attended whole = whole_of(2);
  for (const Lengths& lengths : all_slicings()) {
    const Attended wrong = attended_in(lengths, 2, Fault::masks_by_place);
    EXPECT_EQ(wrong.y == whole.y, lengths.size() == 1) << ::testing::PrintToString(lengths);
    EXPECT_EQ(wrong.dqkv == whole.dqkv, lengths.size() == 1) << ::testing::PrintToString(lengths);
  }
}

}  // namespace
}  // namespace exact
}  // namespace tandem
