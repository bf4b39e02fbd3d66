#pragma once
// Every kernel of executor/cuda, in float and in bfloat16, against the double kernels of the CPU:
// odd shapes, outputs poisoned first, and the same bits in every run. One suite for all machines:
// kernels_test.cpp runs it on the CPU.

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/cuda/kernels/kernel_set.h"
#include "tests/executor/cuda/machines.h"

namespace tandem::cuda::testing {

template <class MachineType, class ActivationType>
struct Setting {
  using Machine = MachineType;
  using Activation = ActivationType;
};

template <class Setting>
class CudaKernels : public ::testing::Test {
 protected:
  using Machine = typename Setting::Machine;

  void SetUp() override {
    if (const auto why = Machine::why_absent()) GTEST_SKIP() << *why;
  }

  /// Of what is stored as `T`: float statistics of bfloat16 numbers are as good as float ones.
  template <class T>
  static void expect_near(const std::vector<T>& values, const std::vector<double>& expected) {
    EXPECT_LT(relative_error(values, expected), kTolerance<T>);
  }
  template <class Work>
  void run(const Work& work) const {
    EXPECT_TRUE(same_bits_in_all_runs<Machine>(work)) << "bits differ between runs";
  }

  const cpu::Kernels<double> oracle;
};

TYPED_TEST_SUITE_P(CudaKernels);

inline const std::vector<RowShape> kRowShapes{{1, 2},   {1, 37},    {3, 256},
                                              {70, 65}, {129, 300}, {5, 1024}};

inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// All but products, which a grid alone can't multiply.
template <class A, class Machine>
auto kernels_of(Machine& machine) {
  return KernelSet<std::remove_reference_t<decltype(machine.grid())>, A>(machine.grid());
}

TYPED_TEST_P(CudaKernels, Elementwise) {
  using A = typename TypeParam::Activation;
  for (const std::int64_t size : {1, 255, 1000}) {
    const auto a = numbers_of<A>(size, 1, 3.0), b = numbers_of<A>(size, 2);
    std::vector<double> sum(at(size)), after(at(size)), slope(at(size));
    this->oracle.add(widen(a), widen(b), sum);
    this->oracle.gelu(widen(a), after);
    this->oracle.gelu_backward(widen(a), widen(b), slope);
    this->run([&](auto& machine, Outputs& outputs) {
      auto x = machine.put(a), in_place = machine.put(b), dx = machine.put(b);
      auto filled = machine.template poisoned<A>(size), copied = machine.template poisoned<A>(size),
           y = machine.template poisoned<A>(size);
      fill(machine.grid(), filled.out(), 0.5F);
      copy(machine.grid(), x.in(), copied.out());
      add(machine.grid(), x.in(), in_place.in(), in_place.out());
      gelu(machine.grid(), x.in(), y.out());
      gelu_backward(machine.grid(), x.in(), dx.in(), dx.out());
      EXPECT_EQ(machine.get(filled), std::vector<A>(at(size), narrow<A>(0.5F)));
      EXPECT_EQ(machine.get(copied), a);
      this->expect_near(machine.get(in_place), sum);
      this->expect_near(machine.get(y), after);
      this->expect_near(machine.get(dx), slope);
      outputs.keep(machine.get(y));
      outputs.keep(machine.get(dx));
    });
  }
}

// Where packs can't be moved whole.
TYPED_TEST_P(CudaKernels, StartsAnywhere) {
  using A = typename TypeParam::Activation;
  const RowShape shape{.rows = 20, .width = 48};
  const std::int64_t size = shape.rows * shape.width;
  const auto x0 = numbers_of<A>(size + 1, 1), gain0 = numbers_of<A>(shape.width, 2);
  this->run([&](auto& machine, Outputs& outputs) {
    auto x = machine.put(x0), aligned = machine.put(std::vector<A>(x0.begin() + 1, x0.end()));
    auto gain = machine.put(gain0);
    auto mean = machine.template poisoned<float>(20),
         deviation = machine.template poisoned<float>(20);
    auto y = machine.template poisoned<A>(size + 1), z = machine.template poisoned<A>(size);
    auto rows = machine.put(std::vector<float>(48)),
         same_rows = machine.put(std::vector<float>(48));
    const auto kernels = kernels_of<A>(machine);
    kernels.add(x.in().subspan(1), x.in().subspan(1), y.out().subspan(1));
    kernels.add(aligned.in(), aligned.in(), z.out());
    const std::vector<A> sums = machine.get(y);
    EXPECT_EQ(std::vector<A>(sums.begin() + 1, sums.end()), machine.get(z));
    kernels.layer_norm(shape, {x.in().subspan(1), gain.in(), gain.in(), mean.out(), deviation.out(),
                               y.out().subspan(1)});
    kernels.layer_norm(shape,
                       {aligned.in(), gain.in(), gain.in(), mean.out(), deviation.out(), z.out()});
    const std::vector<A> normed = machine.get(y);
    EXPECT_EQ(std::vector<A>(normed.begin() + 1, normed.end()), machine.get(z));
    accumulate_rows(machine.grid(), shape, x.in().subspan(1), rows.out());
    accumulate_rows(machine.grid(), shape, aligned.in(), same_rows.out());
    EXPECT_EQ(machine.get(rows), machine.get(same_rows));
    outputs.keep(machine.get(rows));
  });
}

TYPED_TEST_P(CudaKernels, GeluFarFromZero) {
  using A = typename TypeParam::Activation;
  const std::vector<A> x0 = rounded<A>({-1e4F, -100.0F, 100.0F, 1e4F}),
                       ones = rounded<A>({1, 1, 1, 1});
  this->run([&](auto& machine, Outputs& outputs) {
    auto x = machine.put(x0), dy = machine.put(ones);
    auto y = machine.template poisoned<A>(4), dx = machine.template poisoned<A>(4);
    gelu(machine.grid(), x.in(), y.out());
    gelu_backward(machine.grid(), x.in(), dy.in(), dx.out());
    EXPECT_EQ(widen(machine.get(y)),
              (std::vector<double>{0, 0, to_double(x0[2]), to_double(x0[3])}));
    EXPECT_EQ(widen(machine.get(dx)), (std::vector<double>{0, 0, 1, 1}));
    outputs.keep(machine.get(dx));
  });
}

// What is stored rounds, once.
TYPED_TEST_P(CudaKernels, CopiesRoundToTheNearest) {
  using A = typename TypeParam::Activation;
  const std::vector<float> x0 = random_numbers<float>(700, 1);
  this->run([&](auto& machine, Outputs& outputs) {
    auto x = machine.put(x0);
    auto narrowed = machine.template poisoned<A>(700);
    auto widened = machine.template poisoned<float>(700);
    copy(machine.grid(), x.in(), narrowed.out());
    copy(machine.grid(), narrowed.in(), widened.out());
    EXPECT_EQ(machine.get(narrowed), rounded<A>(x0));
    EXPECT_EQ(widen(machine.get(widened)), widen(rounded<A>(x0)));
    outputs.keep(machine.get(widened));
  });
}

TYPED_TEST_P(CudaKernels, LayerNorm) {
  using A = typename TypeParam::Activation;
  for (const RowShape shape : kRowShapes) {
    const std::int64_t size = shape.rows * shape.width;
    const auto x0 = numbers_of<A>(size, 1, 3.0), gain0 = numbers_of<A>(shape.width, 2),
               bias0 = numbers_of<A>(shape.width, 3);
    std::vector<double> mean0(at(shape.rows)), inverse0(at(shape.rows)), y0(x0.size());
    this->oracle.layer_norm(shape, {widen(x0), widen(gain0), widen(bias0), mean0, inverse0, y0});
    this->run([&](auto& machine, Outputs& outputs) {
      auto x = machine.put(x0), gain = machine.put(gain0), bias = machine.put(bias0);
      auto mean = machine.template poisoned<float>(shape.rows),
           inverse = machine.template poisoned<float>(shape.rows);
      auto y = machine.template poisoned<A>(size);
      kernels_of<A>(machine).layer_norm(
          shape, {x.in(), gain.in(), bias.in(), mean.out(), inverse.out(), y.out()});
      this->expect_near(machine.get(y), y0);
      this->expect_near(machine.get(mean), mean0);
      this->expect_near(machine.get(inverse), inverse0);
      outputs.keep(machine.get(y));
      outputs.keep(machine.get(mean));
    });
  }
}

TYPED_TEST_P(CudaKernels, LayerNormBackward) {
  using A = typename TypeParam::Activation;
  for (const RowShape shape : kRowShapes) {
    const std::int64_t size = shape.rows * shape.width;
    const auto x0 = numbers_of<A>(size, 1, 3.0), gain0 = numbers_of<A>(shape.width, 2),
               dy0 = numbers_of<A>(size, 3), residual0 = numbers_of<A>(size, 4);
    const auto mean0 = random_numbers<float>(shape.rows, 5),
               inverse0 = random_numbers<float>(shape.rows, 6);
    for (const bool has_residual : {true, false}) {
      const std::vector<double> before = has_residual ? widen(residual0) : std::vector<double>{};
      std::vector<double> dx0(x0.size());
      this->oracle.layer_norm_backward(shape, {.x = widen(x0),
                                               .mean = widen(mean0),
                                               .inverse_deviation = widen(inverse0),
                                               .gain = widen(gain0),
                                               .dy = widen(dy0),
                                               .residual = before,
                                               .dx = dx0});
      this->run([&](auto& machine, Outputs& outputs) {
        auto x = machine.put(x0), gain = machine.put(gain0), dy = machine.put(dy0),
             residual = machine.put(residual0);
        auto mean = machine.put(mean0), inverse = machine.put(inverse0);
        auto dx = machine.template poisoned<A>(size);
        kernels_of<A>(machine).layer_norm_backward(
            shape, {.x = x.in(),
                    .mean = mean.in(),
                    .inverse_deviation = inverse.in(),
                    .gain = gain.in(),
                    .dy = dy.in(),
                    .residual = has_residual ? residual.in() : std::span<const A>{},
                    .dx = dx.out()});
        this->expect_near(machine.get(dx), dx0);
        outputs.keep(machine.get(dx));
      });
    }
  }
}

TYPED_TEST_P(CudaKernels, SumsOverRowsAddToWhatIsThere) {
  using A = typename TypeParam::Activation;
  for (const RowShape shape : kRowShapes) {
    const std::int64_t size = shape.rows * shape.width;
    const auto x0 = numbers_of<A>(size, 1, 3.0), dy0 = numbers_of<A>(size, 2);
    const auto mean0 = random_numbers<float>(shape.rows, 3),
               inverse0 = random_numbers<float>(shape.rows, 4),
               start = random_numbers<float>(shape.width, 5);
    std::vector<double> dgain0 = widen(start), dbias0 = dgain0, db0 = dgain0;
    this->oracle.layer_norm_backward_weight(
        shape, {widen(x0), widen(mean0), widen(inverse0), widen(dy0), dgain0, dbias0});
    this->oracle.accumulate_rows(shape, widen(dy0), db0);
    this->run([&](auto& machine, Outputs& outputs) {
      auto x = machine.put(x0), dy = machine.put(dy0);
      auto mean = machine.put(mean0), inverse = machine.put(inverse0);
      auto dgain = machine.put(start), dbias = machine.put(start), db = machine.put(start);
      kernels_of<A>(machine).layer_norm_backward_weight(
          shape, {x.in(), mean.in(), inverse.in(), dy.in(), dgain.out(), dbias.out()});
      accumulate_rows(machine.grid(), shape, dy.in(), db.out());
      // Sums of float numbers of the size of one: those that cancel keep their terms' error.
      for (std::size_t i = 0; i < start.size(); ++i) {
        const double tolerance = 1e-6 * static_cast<double>(shape.rows + 4);
        EXPECT_NEAR(to_double(machine.get(dgain)[i]), dgain0[i], 30 * tolerance);
        EXPECT_NEAR(to_double(machine.get(dbias)[i]), dbias0[i], tolerance);
      }
      EXPECT_EQ(machine.get(dbias), machine.get(db));
      this->expect_near(machine.get(dgain), dgain0);
      this->expect_near(machine.get(db), db0);
      outputs.keep(machine.get(dgain));
      outputs.keep(machine.get(db));
    });
  }
}

inline const std::vector<AttentionShape> kAttentionShapes{
    {.batch = 1, .sequence = 1, .heads = 1, .width = 1},
    {.batch = 2, .sequence = 5, .heads = 3, .width = 21},
    {.batch = 2, .sequence = 5, .heads = 6, .width = 18, .key_value_heads = 2},
    {.batch = 1, .sequence = 65, .heads = 2, .width = 128, .key_value_heads = 1},
    {.batch = 2, .sequence = 65, .heads = 2, .width = 128},
    {.batch = 1, .sequence = 300, .heads = 1, .width = 128},
    {.batch = 1, .sequence = 7, .heads = 1, .width = 320},
    {.batch = 1, .sequence = 1024, .heads = 1, .width = 8}};

TYPED_TEST_P(CudaKernels, Attention) {
  using A = typename TypeParam::Activation;
  for (const AttentionShape& shape : kAttentionShapes) {
    const std::int64_t rows = shape.batch * shape.sequence, sums = rows * shape.heads;
    const auto qkv0 = numbers_of<A>(rows * shape.qkv_width(), 1),
               dy0 = numbers_of<A>(rows * shape.width, 2);
    std::vector<double> log_sum0(at(sums)), y0(dy0.size()), dqkv0(qkv0.size());
    this->oracle.attention(shape, {widen(qkv0), log_sum0, y0});
    this->oracle.attention_backward(shape, {widen(qkv0), log_sum0, y0, widen(dy0), dqkv0});
    this->run([&](auto& machine, Outputs& outputs) {
      auto qkv = machine.put(qkv0), dy = machine.put(dy0);
      auto log_sum = machine.template poisoned<float>(sums);
      auto y = machine.template poisoned<A>(rows * shape.width),
           dqkv = machine.template poisoned<A>(rows * shape.qkv_width());
      kernels_of<A>(machine).attention(shape, {qkv.in(), log_sum.out(), y.out()});
      kernels_of<A>(machine).attention_backward(
          shape, {qkv.in(), log_sum.in(), y.in(), dy.in(), dqkv.out()});
      this->expect_near(machine.get(y), y0);
      EXPECT_LT(relative_error(machine.get(log_sum), log_sum0), 1e-5);
      this->expect_near(machine.get(dqkv), dqkv0);
      outputs.keep(machine.get(y));
      outputs.keep(machine.get(dqkv));
    });
  }
}

struct SlicedAttention {
  AttentionShape shape;
  std::vector<std::int64_t> earlier;  // tokens of the slices before
  std::int64_t later = 0;             // and behind
};
inline const std::vector<SlicedAttention> kSlicedAttention{
    {{.batch = 2, .sequence = 5, .heads = 3, .width = 21}, {}, 4},
    {{.batch = 2, .sequence = 5, .heads = 3, .width = 21}, {4, 1}, 3},
    {{.batch = 2, .sequence = 5, .heads = 6, .width = 18, .key_value_heads = 2}, {4, 1}, 3},
    {{.batch = 1, .sequence = 70, .heads = 2, .width = 16}, {300, 65}, 0}};

// Sums of the gradients of keys and values begin with what later slices have added.
TYPED_TEST_P(CudaKernels, AttentionOverSlices) {
  using A = typename TypeParam::Activation;
  for (const auto& [shape, lengths, later] : kSlicedAttention) {
    const std::int64_t rows = shape.batch * shape.sequence, sums = rows * shape.heads;
    std::int64_t whole = shape.sequence + later;
    std::vector<std::vector<A>> earlier0;
    std::vector<std::vector<double>> wide0;
    for (const std::int64_t length : lengths) {
      whole += length;
      const auto seed = static_cast<std::uint64_t>(10 + whole);
      earlier0.push_back(numbers_of<A>(shape.batch * length * shape.qkv_width(), seed));
      wide0.push_back(widen(earlier0.back()));
    }
    const auto qkv0 = numbers_of<A>(rows * shape.qkv_width(), 1),
               dy0 = numbers_of<A>(rows * shape.width, 2);
    const auto context0 = numbers_of<float>(shape.batch * whole * 2 * shape.key_width(), 3);
    std::vector<double> log_sum0(at(sums)), y0(dy0.size()), dqkv0(qkv0.size()),
        context_gradient0 = widen(context0);
    const std::vector<std::span<const double>> keys0(wide0.begin(), wide0.end());
    this->oracle.attention(shape, {widen(qkv0), log_sum0, y0, keys0});
    this->oracle.attention_backward(
        shape, {widen(qkv0), log_sum0, y0, widen(dy0), dqkv0, keys0, context_gradient0});
    this->run([&](auto& machine, Outputs& outputs) {
      auto qkv = machine.put(qkv0), dy = machine.put(dy0);
      std::vector<decltype(machine.put(qkv0))> earlier;
      std::vector<std::span<const A>> keys;
      for (const std::vector<A>& slice : earlier0) earlier.push_back(machine.put(slice));
      for (const auto& slice : earlier) keys.push_back(slice.in());
      auto context_gradient = machine.put(context0);
      auto log_sum = machine.template poisoned<float>(sums);
      auto y = machine.template poisoned<A>(rows * shape.width),
           dqkv = machine.template poisoned<A>(rows * shape.qkv_width());
      kernels_of<A>(machine).attention(shape, {qkv.in(), log_sum.out(), y.out(), keys});
      kernels_of<A>(machine).attention_backward(shape, {qkv.in(), log_sum.in(), y.in(), dy.in(),
                                                        dqkv.out(), keys, context_gradient.out()});
      this->expect_near(machine.get(y), y0);
      EXPECT_LT(relative_error(machine.get(log_sum), log_sum0), 1e-5);
      this->expect_near(machine.get(dqkv), dqkv0);
      // Of outputs that are rounded as they are stored.
      EXPECT_LT(relative_error(machine.get(context_gradient), context_gradient0), kTolerance<A>);
      outputs.keep(machine.get(dqkv));
      outputs.keep(machine.get(context_gradient));
    });
  }
}

TYPED_TEST_P(CudaKernels, AttentionSurvivesHugeScores) {
  using A = typename TypeParam::Activation;
  const AttentionShape shape{.batch = 1, .sequence = 9, .heads = 1, .width = 4};
  const auto qkv0 = numbers_of<A>(9 * 12, 1, 100.0);
  std::vector<double> log_sum0(9), y0(36);
  this->oracle.attention(shape, {widen(qkv0), log_sum0, y0});
  this->run([&](auto& machine, Outputs& outputs) {
    auto qkv = machine.put(qkv0);
    auto log_sum = machine.template poisoned<float>(9);
    auto y = machine.template poisoned<A>(36);
    kernels_of<A>(machine).attention(shape, {qkv.in(), log_sum.out(), y.out()});
    EXPECT_LT(relative_error(machine.get(y), y0), 1e-2);
    outputs.keep(machine.get(y));
  });
}

TYPED_TEST_P(CudaKernels, Embedding) {
  using A = typename TypeParam::Activation;
  for (const std::int64_t width : {1, 48, 300}) {
    const AttentionShape shape{.batch = 15, .sequence = 40, .heads = 1, .width = width};
    const std::int64_t vocabulary = 7, rows = 600;
    std::vector<std::int32_t> ids(at(rows));
    // Token 6 never comes.
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(random_bits(1, 2, i) % 6);
    const auto table0 = numbers_of<A>(vocabulary * width, 1),
               positions0 = numbers_of<A>(40 * width, 2), dy0 = numbers_of<A>(rows * width, 3);
    const auto start = random_numbers<float>(vocabulary * width, 4),
               begin = random_numbers<float>(40 * width, 5);
    std::vector<double> kept0(at(rows)), y0(dy0.size());
    this->oracle.keep_tokens(ids, kept0);
    this->oracle.embed(shape, kept0, widen(table0), widen(positions0), y0);
    // In the same order: the same bits.
    std::vector<float> dy_float, kept_float(kept0.begin(), kept0.end()), dtable0 = start,
                                                                         dpositions0 = begin;
    for (const A value : dy0) dy_float.push_back(to_float(value));
    cpu::Kernels<float>(cpu::gemm<float>)
        .embed_backward(shape, kept_float, dy_float, dtable0, dpositions0);
    this->run([&](auto& machine, Outputs& outputs) {
      auto tokens = machine.put(ids);
      auto kept = machine.template poisoned<float>(rows);
      auto table = machine.put(table0), positions = machine.put(positions0), dy = machine.put(dy0);
      auto y = machine.template poisoned<A>(rows * width);
      auto dtable = machine.put(start), dpositions = machine.put(begin);
      keep_tokens(machine.grid(), tokens.in(), kept.out());
      kernels_of<A>(machine).embed(shape, kept.in(), table.in(), positions.in(), y.out());
      kernels_of<A>(machine).embed_backward(shape, kept.in(), dy.in(), dtable.out(),
                                            dpositions.out());
      EXPECT_EQ(machine.get(kept), kept_float);
      this->expect_near(machine.get(y), y0);
      EXPECT_EQ(machine.get(dtable), dtable0);
      EXPECT_EQ(machine.get(dpositions), dpositions0);
      outputs.keep(machine.get(y));
      outputs.keep(machine.get(dtable));
    });
  }
}

TYPED_TEST_P(CudaKernels, TokensThatTheTableDoesNotHaveShow) {
  using A = typename TypeParam::Activation;
  const AttentionShape shape{.batch = 1, .sequence = 3, .heads = 1, .width = 1};
  this->run([&](auto& machine, Outputs& outputs) {
    auto kept = machine.put(std::vector<float>{1, 2, -1});
    auto table = machine.put(rounded<A>({5, 6})), positions = machine.put(rounded<A>({1, 1, 1}));
    auto y = machine.template poisoned<A>(3);
    auto dtable = machine.put(std::vector<float>{0, 0}),
         dpositions = machine.put(std::vector<float>{0, 0, 0});
    kernels_of<A>(machine).embed(shape, kept.in(), table.in(), positions.in(), y.out());
    kernels_of<A>(machine).embed_backward(shape, kept.in(), positions.in(), dtable.out(),
                                          dpositions.out());
    const auto got = widen(machine.get(y));
    EXPECT_EQ(got[0], 7.0);
    EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
    EXPECT_EQ(machine.get(dtable), (std::vector<float>{0, 1}));
    outputs.keep(machine.get(dtable));
  });
}

TYPED_TEST_P(CudaKernels, CrossEntropy) {
  using A = typename TypeParam::Activation;
  for (const RowShape shape : kRowShapes) {
    const auto logits0 = numbers_of<A>(shape.rows * shape.width, 1, 3.0);
    std::vector<std::int32_t> targets0;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      targets0.push_back(static_cast<std::int32_t>((row * 31 + 5) % shape.width));
    }
    std::vector<double> gradient0 = widen(logits0);
    double loss0 = 0.0;
    this->oracle.cross_entropy(shape, targets0, 0.125, gradient0, &loss0);
    this->run([&](auto& machine, Outputs& outputs) {
      auto logits = machine.put(logits0), unasked = machine.put(logits0);
      auto targets = machine.put(targets0);
      auto loss = machine.template poisoned<double>(1);
      cross_entropy(machine.grid(), shape, targets.in(), 0.125, logits.out(), loss.out().data());
      cross_entropy(machine.grid(), shape, targets.in(), 0.125, unasked.out(), nullptr);
      EXPECT_NEAR(machine.get(loss)[0], loss0, 1e-5 * loss0);
      this->expect_near(machine.get(logits), gradient0);
      EXPECT_EQ(machine.get(unasked), machine.get(logits));
      outputs.keep(machine.get(logits));
      outputs.keep(machine.get(loss));
    });
  }
}

TYPED_TEST_P(CudaKernels, CrossEntropySurvivesHugeLogitsAndShowsAWrongTarget) {
  using A = typename TypeParam::Activation;
  this->run([&](auto& machine, Outputs& outputs) {
    auto logits = machine.put(rounded<A>({8192.0F, -8192.0F, 0.0F}));
    auto wrong = machine.put(rounded<A>({1.0F, 2.0F, 3.0F}));
    auto one = machine.put(std::vector<std::int32_t>{1}),
         three = machine.put(std::vector<std::int32_t>{3});
    auto loss = machine.template poisoned<double>(1),
         no_loss = machine.put(std::vector<double>{1.0});
    cross_entropy(machine.grid(), {.rows = 1, .width = 3}, one.in(), 1.0, logits.out(),
                  loss.out().data());
    cross_entropy(machine.grid(), {.rows = 1, .width = 3}, three.in(), 1.0, wrong.out(),
                  no_loss.out().data());
    EXPECT_EQ(machine.get(loss)[0], 16384.0);
    EXPECT_EQ(widen(machine.get(logits)), (std::vector<double>{1, -1, 0}));
    EXPECT_TRUE(std::isnan(machine.get(no_loss)[0]));
    outputs.keep(machine.get(logits));
  });
}

TYPED_TEST_P(CudaKernels, SquaredErrorAndSumOfSquares) {
  using A = typename TypeParam::Activation;
  for (const std::int64_t rows : {1, 3, 16384, 50001}) {
    const auto y0 = numbers_of<A>(rows, 1);
    const auto expected0 = random_numbers<float>(rows, 2);
    std::vector<double> gradient0(y0.size());
    const RowShape shape{.rows = rows, .width = 1};
    double loss0 = 0.0;
    this->oracle.squared_error(shape, widen(y0), widen(expected0), 0.5, gradient0, &loss0);
    // Of the first part, of nothing, of the rest, and of more than a kernel is handed at a time.
    std::vector<ElementRange> ranges{{0, rows / 3}, {rows / 3, rows / 3}, {rows / 3, rows}};
    for (std::int64_t i = 0; i < 130; ++i) ranges.push_back({i % rows, i % rows + 1});
    std::vector<double> squares0(ranges.size());
    this->oracle.sums_of_squares(widen(y0), ranges, 9.0, squares0);
    this->run([&](auto& machine, Outputs& outputs) {
      auto y = machine.put(y0);
      auto expected = machine.put(expected0);
      auto gradient = machine.template poisoned<A>(rows);
      auto results = machine.template poisoned<double>(std::ssize(ranges) + 1);
      kernels_of<A>(machine).squared_error(shape, y.in(), expected.in(), 0.5, gradient.out(),
                                           results.out().data());
      sums_of_squares(machine.grid(), y.in(), std::span(ranges), 9.0, results.out().subspan(1));
      EXPECT_NEAR(machine.get(results)[0], loss0, 1e-6 * loss0);
      for (std::size_t i = 0; i < ranges.size(); ++i)
        EXPECT_NEAR(machine.get(results)[i + 1], squares0[i], 1e-12 * squares0[i]);
      this->expect_near(machine.get(gradient), gradient0);
      outputs.keep(machine.get(gradient));
      outputs.keep(machine.get(results));
    });
  }
}

inline const std::vector<MatmulShape> kProductShapes{
    {1, 1, 1}, {5, 3, 7}, {16, 16, 16}, {33, 70, 18}, {64, 129, 40}};

TYPED_TEST_P(CudaKernels, PlainProducts) {
  using A = typename TypeParam::Activation;
  for (const MatmulShape shape : kProductShapes) {
    const auto x0 = numbers_of<A>(shape.rows * shape.inner, 1),
               w0 = numbers_of<A>(shape.inner * shape.columns, 2),
               bias0 = numbers_of<A>(shape.columns, 3),
               dy0 = numbers_of<A>(shape.rows * shape.columns, 4);
    const auto start = random_numbers<float>(shape.inner * shape.columns, 5);
    std::vector<double> y0(dy0.size()), z0 = y0, t0 = y0, dw0 = widen(start);
    this->oracle.matmul(shape, widen(x0), widen(w0), widen(bias0), y0);
    this->oracle.matmul(shape, widen(x0), widen(w0), {}, z0);
    this->oracle.matmul_transposed(shape, widen(x0), widen(w0), t0);
    this->oracle.accumulate_product(shape, widen(x0), widen(dy0), dw0);
    this->run([&](auto& machine, Outputs& outputs) {
      auto x = machine.put(x0), w = machine.put(w0), bias = machine.put(bias0),
           dy = machine.put(dy0);
      const std::int64_t size = shape.rows * shape.columns;
      auto y = machine.template poisoned<A>(size), z = machine.template poisoned<A>(size),
           t = machine.template poisoned<A>(size);
      auto dw = machine.put(start);
      product(machine.grid(),
              matmul_product<ProductSpans>(shape, x.in(), w.in(), bias.in(), y.out()));
      product(machine.grid(),
              matmul_product<ProductSpans>(shape, x.in(), w.in(), std::span<const A>{}, z.out()));
      product(machine.grid(),
              matmul_transposed_product<ProductSpans>(shape, x.in(), w.in(), t.out()));
      product(machine.grid(), accumulated_product<ProductSpans>(shape, x.in(), dy.in(), dw.out()));
      this->expect_near(machine.get(y), y0);
      this->expect_near(machine.get(z), z0);
      this->expect_near(machine.get(t), t0);
      this->expect_near(machine.get(dw), dw0);
      outputs.keep(machine.get(y));
      outputs.keep(machine.get(dw));
    });
  }
}

// What is made along the way of a product: in one kernel, and by kernels of their own afterwards.
TYPED_TEST_P(CudaKernels, ProductsWithMoreMadeAlongTheWay) {
  using A = typename TypeParam::Activation;
  for (const MatmulShape shape : kProductShapes) {
    const std::int64_t size = shape.rows * shape.columns;
    const auto x0 = numbers_of<A>(shape.rows * shape.inner, 1, 0.3),
               w0 = numbers_of<A>(shape.inner * shape.columns, 2, 0.3),
               bias0 = numbers_of<A>(shape.columns, 3), before0 = numbers_of<A>(size, 4),
               dy0 = numbers_of<A>(size, 6);
    const auto start = random_numbers<float>(shape.inner * shape.columns, 5),
               begin = random_numbers<float>(shape.columns, 7);
    std::vector<double> read0(at(size)), y0(at(size)), dx0(at(size)), dw0 = widen(start),
                                                                      db0 = widen(begin);
    this->oracle.matmul_gelu(shape, widen(x0), widen(w0), widen(bias0), read0, y0);
    this->oracle.matmul_transposed_gelu_backward(shape, widen(x0), widen(w0), widen(before0), dx0);
    this->oracle.accumulate_product_and_rows(shape, widen(x0), widen(dy0), dw0, db0);
    for (const bool fused : {true, false}) {
      this->run([&](auto& machine, Outputs& outputs) {
        auto x = machine.put(x0), w = machine.put(w0), bias = machine.put(bias0),
             before = machine.put(before0), dy = machine.put(dy0);
        auto read = machine.template poisoned<A>(size), y = machine.template poisoned<A>(size),
             dx = machine.template poisoned<A>(size);
        auto dw = machine.put(start), db = machine.put(begin);
        auto forward = matmul_product<ProductSpans>(shape, x.in(), w.in(), bias.in(), y.out());
        forward.before_gelu = read.out().data();
        auto backward = matmul_transposed_product<ProductSpans>(shape, x.in(), w.in(), dx.out());
        backward.gelu_input = before.in().data();
        auto weights = accumulated_product<ProductSpans>(shape, x.in(), dy.in(), dw.out());
        weights.column_sums = db.out().data();
        const auto multiply = [&](const auto& spans) {
          if (fused) return product(machine.grid(), spans);
          product(machine.grid(), without_epilogue(spans));
          finish(machine.grid(), spans);
        };
        multiply(forward);
        multiply(backward);
        multiply(weights);
        this->expect_near(machine.get(read), read0);
        this->expect_near(machine.get(y), y0);
        this->expect_near(machine.get(dx), dx0);
        this->expect_near(machine.get(dw), dw0);
        this->expect_near(machine.get(db), db0);
        outputs.keep(machine.get(y));
        outputs.keep(machine.get(dx));
        outputs.keep(machine.get(db));
      });
    }
  }
}

struct StepCase {
  Optimizer optimizer;
  bool keeps_state, makes_weights;
  double steps = 2.0;
};
inline const std::vector<StepCase> kStepCases{
    {OptimizerKind::sgd, false, true},
    {OptimizerKind::momentum, false, true},
    {OptimizerKind::momentum, true, true},
    {OptimizerKind::adamw, false, true},
    {OptimizerKind::adamw, true, true},
    {OptimizerKind::adamw, false, false},
    {OptimizerKind::nadam, false, true},
    {OptimizerKind::nadam, true, true},
    {{OptimizerKind::sgd, DelayCorrection::error_feedback}, false, true},
    {{OptimizerKind::adamw, DelayCorrection::error_feedback}, false, true},
    {{OptimizerKind::adamw, DelayCorrection::error_feedback}, false, true, 1.0},
    {{OptimizerKind::adamw, DelayCorrection::error_feedback}, true, true},
    {{OptimizerKind::adamw, DelayCorrection::error_feedback}, false, false},
    {{OptimizerKind::momentum, DelayCorrection::error_feedback_with_decay}, false, true}};

inline const StepNumbers kStepNumbers{.learning_rate = 0.01,
                                      .gradient_scale = 0.5,
                                      .weight_decay = 0.1,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-8,
                                      .correction1 = 0.271,
                                      .correction2 = 0.142,
                                      .slope_weight = 0.3};

TYPED_TEST_P(CudaKernels, OptimizerSteps) {
  for (const auto& [optimizer, keeps_state, makes_weights, steps] : kStepCases) {
    const OptimizerKind kind = optimizer.kind;
    const std::size_t size = 777, states = static_cast<std::size_t>(optimizer_states(kind));
    const std::size_t corrected = optimizer_states(optimizer) > optimizer_states(kind) ? size : 0;
    StepNumbers numbers = kStepNumbers;
    numbers.steps = steps;
    numbers.corrects_decay = optimizer.correction == DelayCorrection::error_feedback_with_decay;
    const auto count = static_cast<std::int64_t>(size);
    const auto weights0 = random_numbers<float>(count, 1),
               gradient0 = random_numbers<float>(count, 2);
    auto first0 = random_numbers<float>(count, 3), second0 = random_numbers<float>(count, 4);
    for (float& value : second0) value *= value;
    const auto last0 = random_numbers<float>(count, 5);
    std::vector<double> made0(size), first_after = widen(first0), second_after = widen(second0);
    std::vector<double> last_after = widen(last0);
    // More than a kernel is handed at a time.
    std::vector<ElementRange> decayed;
    for (std::int64_t i = 0; i < 250; ++i) decayed.push_back({3 * i, 3 * i + 1 + i % 2});
    this->oracle.step(kind,
                      {.weights = widen(weights0),
                       .gradient = widen(gradient0),
                       .first = std::span(first_after).first(states > 0 ? size : 0),
                       .second = std::span(second_after).first(states > 1 ? size : 0),
                       .weights_out = std::span(made0).first(makes_weights ? size : 0),
                       .keeps_state = keeps_state,
                       .decayed = decayed,
                       .last_step = std::span(last_after).first(corrected)},
                      numbers);
    this->run([&](auto& machine, Outputs& outputs) {
      auto weights = machine.put(weights0), gradient = machine.put(gradient0);
      auto first = machine.put(first0), second = machine.put(second0), last = machine.put(last0);
      auto made = machine.template poisoned<float>(count);
      auto rounded_made = machine.template poisoned<Bf16>(count);
      kernels_of<Bf16>(machine).step(kind,
                                     {.weights = weights.in(),
                                      .gradient = gradient.in(),
                                      .first = first.out().first(states > 0 ? size : 0),
                                      .second = second.out().first(states > 1 ? size : 0),
                                      .weights_out = made.out().first(makes_weights ? size : 0),
                                      .keeps_state = keeps_state,
                                      .rounded = rounded_made.out().first(makes_weights ? size : 0),
                                      .decayed = decayed,
                                      .last_step = last.out().first(corrected)},
                                     numbers);
      if (makes_weights) {
        this->expect_near(machine.get(made), made0);
        EXPECT_EQ(machine.get(rounded_made), rounded<Bf16>(machine.get(made)));
      }
      this->expect_near(machine.get(first), first_after);
      this->expect_near(machine.get(second), second_after);
      this->expect_near(machine.get(last), last_after);
      outputs.keep(machine.get(made));
      outputs.keep(machine.get(first));
    });
  }
}

/// A plane is stored as products read it: what float kernels make of it, rounded.
template <class A>
void expect_rounded(const std::vector<A>& plane, const std::vector<float>& in_float) {
  EXPECT_EQ(plane, rounded<A>(in_float));
}

TYPED_TEST_P(CudaKernels, StepsCorrectWhatTheyMake) {
  using A = typename TypeParam::Activation;
  constexpr std::int64_t kCount = 777;
  const auto weights0 = random_numbers<float>(kCount, 1),
             gradient0 = random_numbers<float>(kCount, 2),
             drift0 = random_numbers<float>(kCount, 3);
  StepNumbers numbers = kStepNumbers;
  numbers.reading = {.delay = 1.5, .kept = 0.25};
  std::vector<double> made0(kCount), drift_after = widen(drift0), corrected0(kCount);
  this->oracle.step(OptimizerKind::sgd,
                    {.weights = widen(weights0),
                     .gradient = widen(gradient0),
                     .weights_out = made0,
                     .backward_weights = corrected0,
                     .drift = drift_after},
                    numbers);
  this->run([&](auto& machine, Outputs& outputs) {
    auto weights = machine.put(weights0), gradient = machine.put(gradient0),
         drift = machine.put(drift0);
    auto same_weights = machine.put(weights0), same_drift = machine.put(drift0);
    auto corrected = machine.template poisoned<A>(kCount);
    auto in_float = machine.template poisoned<float>(kCount);
    // In place, as where a stage keeps one version.
    kernels_of<A>(machine).step(OptimizerKind::sgd,
                                {.weights = weights.in(),
                                 .gradient = gradient.in(),
                                 .weights_out = weights.out(),
                                 .backward_weights = corrected.out(),
                                 .drift = drift.out()},
                                numbers);
    kernels_of<float>(machine).step(OptimizerKind::sgd,
                                    {.weights = same_weights.in(),
                                     .gradient = gradient.in(),
                                     .weights_out = same_weights.out(),
                                     .backward_weights = in_float.out(),
                                     .drift = same_drift.out()},
                                    numbers);
    expect_rounded(machine.get(corrected), machine.get(in_float));
    EXPECT_EQ(machine.get(drift), machine.get(same_drift)) << "is never rounded";
    this->expect_near(machine.get(weights), made0);
    this->expect_near(machine.get(drift), drift_after);
    this->expect_near(machine.get(corrected), corrected0);
    outputs.keep(machine.get(drift));
    outputs.keep(machine.get(corrected));
  });
}

TYPED_TEST_P(CudaKernels, StepsPredictWhatTheyWouldMake) {
  using A = typename TypeParam::Activation;
  constexpr std::int64_t kCount = 777;
  const auto weights0 = random_numbers<float>(kCount, 1),
             gradient0 = random_numbers<float>(kCount, 2),
             first0 = random_numbers<float>(kCount, 3);
  StepNumbers numbers = kStepNumbers;
  numbers.reading = {.forward_horizon = 2.5, .backward_horizon = 0.5};
  UpdateDecision skipping{.skip = 1.0};
  for (const bool skips : {false, true}) {
    numbers.decision = skips ? &skipping : nullptr;
    std::vector<double> made0(kCount), first_after = widen(first0), ahead0(kCount), back0(kCount);
    this->oracle.step(OptimizerKind::momentum,
                      {.weights = widen(weights0),
                       .gradient = widen(gradient0),
                       .first = first_after,
                       .weights_out = made0,
                       .forward_weights = ahead0,
                       .backward_weights = back0},
                      numbers);
    this->run([&](auto& machine, Outputs& outputs) {
      auto weights = machine.put(weights0), gradient = machine.put(gradient0),
           first = machine.put(first0);
      auto same_weights = machine.put(weights0), same_first = machine.put(first0);
      auto ahead = machine.template poisoned<A>(kCount),
           back = machine.template poisoned<A>(kCount);
      auto float_ahead = machine.template poisoned<float>(kCount),
           float_back = machine.template poisoned<float>(kCount);
      auto decision = machine.put(std::vector<UpdateDecision>{skipping});
      StepNumbers there = numbers;
      if (skips) there.decision = decision.in().data();
      kernels_of<A>(machine).step(OptimizerKind::momentum,
                                  {.weights = weights.in(),
                                   .gradient = gradient.in(),
                                   .first = first.out(),
                                   .weights_out = weights.out(),
                                   .forward_weights = ahead.out(),
                                   .backward_weights = back.out()},
                                  there);
      kernels_of<float>(machine).step(OptimizerKind::momentum,
                                      {.weights = same_weights.in(),
                                       .gradient = gradient.in(),
                                       .first = same_first.out(),
                                       .weights_out = same_weights.out(),
                                       .forward_weights = float_ahead.out(),
                                       .backward_weights = float_back.out()},
                                      there);
      expect_rounded(machine.get(ahead), machine.get(float_ahead));
      expect_rounded(machine.get(back), machine.get(float_back));
      this->expect_near(machine.get(weights), made0);
      this->expect_near(machine.get(ahead), ahead0);
      this->expect_near(machine.get(back), back0);
      outputs.keep(machine.get(ahead));
      outputs.keep(machine.get(back));
    });
  }
}

/// What Muon makes of a momentum besides products.
TYPED_TEST_P(CudaKernels, MomentaThatAreMadeOrthogonal) {
  using A = typename TypeParam::Activation;
  constexpr std::int64_t kCount = 777;
  const auto gradient0 = random_numbers<float>(kCount, 2), mean0 = random_numbers<float>(kCount, 3);
  const auto x0 = numbers_of<A>(kCount, 4), y0 = numbers_of<A>(kCount, 5);
  for (const bool keeps_state : {false, true}) {
    std::vector<double> mean_after = widen(mean0), slope0(kCount), combined0(kCount), even0(kCount);
    this->oracle.nesterov({.gradient = widen(gradient0),
                           .momentum = mean_after,
                           .slope = slope0,
                           .keeps_state = keeps_state},
                          kStepNumbers);
    this->oracle.combine(-4.775, widen(x0), 2.0315, widen(y0), combined0);
    const std::vector<double> square0{900.0};
    this->oracle.divide_by_norm(slope0, square0, even0);
    this->run([&](auto& machine, Outputs& outputs) {
      auto gradient = machine.put(gradient0), mean = machine.put(mean0);
      auto x = machine.put(x0), y = machine.put(y0);
      auto square = machine.put(square0);
      auto slope = machine.template poisoned<float>(kCount);
      auto even = machine.template poisoned<A>(kCount);
      const auto kernels = kernels_of<A>(machine);
      kernels.nesterov({.gradient = gradient.in(),
                        .momentum = mean.out(),
                        .slope = slope.out(),
                        .keeps_state = keeps_state},
                       kStepNumbers);
      kernels.combine(-4.775, x.in(), 2.0315, y.in(), x.out());
      kernels.divide_by_norm(slope.in(), square.in(), even.out());
      this->expect_near(machine.get(mean), mean_after);
      this->expect_near(machine.get(slope), slope0);
      this->expect_near(machine.get(x), combined0);
      this->expect_near(machine.get(even), even0);
      outputs.keep(machine.get(mean));
      outputs.keep(machine.get(slope));
      outputs.keep(machine.get(x));
      outputs.keep(machine.get(even));
    });
  }
}

TYPED_TEST_P(CudaKernels, StepsHeedTheDecisionWhenTheyRun) {
  const auto weights0 = random_numbers<float>(300, 1), gradient0 = random_numbers<float>(300, 2);
  const std::vector<float> zeros(300);
  // Sums of squares that are clipped, then others that are not finite.
  const std::vector<double> large{9.0, 16.0}, broken{1.0, std::nan("")};
  const DecideNumbers limits{.clips = true, .most_norm = 2.0, .beta1 = 0.9, .beta2 = 0.95};
  StepNumbers numbers = kStepNumbers;
  numbers.gradient_scale *= 2.0 / 5.0;
  numbers.correction1 = 1.0 - 0.9;
  numbers.correction2 = 1.0 - 0.95;
  std::vector<double> first0(300), second0(300), made0(300);
  this->oracle.step(OptimizerKind::adamw,
                    {widen(weights0), widen(gradient0), first0, second0, made0}, numbers);
  this->run([&](auto& machine, Outputs& outputs) {
    auto weights = machine.put(weights0), gradient = machine.put(gradient0);
    auto first = machine.put(zeros), second = machine.put(zeros);
    auto made = machine.template poisoned<float>(300), kept = machine.template poisoned<float>(300);
    auto squares = machine.put(large), bad_squares = machine.put(broken);
    auto decisions = machine.put(std::vector<UpdateDecision>(2));
    auto shown = machine.put(std::vector<UpdateDecision>(1));
    auto shown_squares = machine.template poisoned<double>(2);
    UpdateDecision* const decided = decisions.out().data();
    const auto kernels = kernels_of<Bf16>(machine);
    kernels.decide(squares.in(), limits, nullptr, decided, {});
    kernels.decide(bad_squares.in(), limits, decided, decided + 1,
                   {shown_squares.out().data(), shown.out().data()});
    StepNumbers with_decision = kStepNumbers;
    with_decision.decision = decided;
    kernels.step(OptimizerKind::adamw,
                 {weights.in(), gradient.in(), first.out(), second.out(), made.out()},
                 with_decision);
    with_decision.decision = decided + 1;
    kernels.step(OptimizerKind::adamw,
                 {made.in(), gradient.in(), first.out(), second.out(), kept.out()}, with_decision);
    this->expect_near(machine.get(made), made0);
    this->expect_near(machine.get(first), first0);
    EXPECT_EQ(machine.get(kept), machine.get(made));
    const std::vector<UpdateDecision> got = machine.get(decisions);
    EXPECT_EQ(got[0].norm, 5.0);
    EXPECT_EQ(got[0].scale, 0.4);
    EXPECT_EQ(got[0].skip, 0.0);
    EXPECT_EQ(got[0].steps, 1.0);
    EXPECT_NEAR(got[0].correction1, numbers.correction1, 1e-15);
    EXPECT_NEAR(got[0].correction2, numbers.correction2, 1e-15);
    EXPECT_TRUE(std::isnan(got[1].norm));
    EXPECT_EQ(got[1].skip, 1.0);
    EXPECT_EQ(got[1].steps, 1.0);
    EXPECT_EQ(machine.get(shown)[0].skip, 1.0);
    EXPECT_EQ(machine.get(shown_squares)[0], 1.0);
    EXPECT_TRUE(std::isnan(machine.get(shown_squares)[1]));
    outputs.keep(machine.get(kept));
  });
}

REGISTER_TYPED_TEST_SUITE_P(CudaKernels, OptimizerSteps, StepsCorrectWhatTheyMake,
                            StepsPredictWhatTheyWouldMake, MomentaThatAreMadeOrthogonal,
                            StepsHeedTheDecisionWhenTheyRun, Elementwise, StartsAnywhere,
                            GeluFarFromZero, CopiesRoundToTheNearest, LayerNorm, LayerNormBackward,
                            SumsOverRowsAddToWhatIsThere, Attention, AttentionOverSlices,
                            AttentionSurvivesHugeScores, Embedding,
                            TokensThatTheTableDoesNotHaveShow, CrossEntropy,
                            CrossEntropySurvivesHugeLogitsAndShowsAWrongTarget,
                            SquaredErrorAndSumOfSquares, PlainProducts,
                            ProductsWithMoreMadeAlongTheWay);

}  // namespace tandem::cuda::testing
