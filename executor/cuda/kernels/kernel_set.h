#pragma once
// All kernels over one context, as tandem::Kernels asks for them: what is stored is float or
// bfloat16, what must not be rounded float. A context is a grid (block.h) that multiplies:
// context.multiply(ProductSpans<Stored, Stored>), and ProductSpans<Stored, float>.

#include <concepts>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/attention.h"
#include "executor/cuda/kernels/column_sums.h"
#include "executor/cuda/kernels/elementwise.h"
#include "executor/cuda/kernels/embedding.h"
#include "executor/cuda/kernels/loss.h"
#include "executor/cuda/kernels/norm.h"
#include "executor/cuda/kernels/product.h"
#include "executor/cuda/kernels/steps.h"

namespace tandem::cuda {

/// A pointer to its context: cheap to copy. Calls queue their work and return.
template <class Context, class Stored = float>
class KernelSet {
 public:
  using Scalar = Stored;
  using Wide = float;
  using In = std::span<const Stored>;
  using Out = std::span<Stored>;
  using WideIn = std::span<const float>;
  using WideOut = std::span<float>;
  using Ids = std::span<const std::int32_t>;  // the host reads them, too

  /// Where it does not, what takes a Wide takes a Scalar.
  static constexpr bool kRounds = !std::same_as<Stored, float>;

  explicit KernelSet(Context& context) : context_(&context) {}

  static Stored rounded(float value) { return narrow<Stored>(value); }
  void fill(WideOut y, double value) const;
  void copy(In x, Out y) const;
  void store(WideIn x, Out y) const;
  void copy(WideIn x, WideOut y) const
    requires kRounds;
  void add(In a, In b, Out y) const;
  void add(WideIn a, WideIn b, WideOut y) const
    requires kRounds;
  void sum_of_squares(WideIn x, double factor, double* sum) const;

  void matmul(MatmulShape shape, In x, In w, In bias, Out y) const;
  void matmul_transposed(MatmulShape shape, In x, In w, Out y) const;
  void accumulate_product(MatmulShape shape, In x, In dy, WideOut dw) const;
  void accumulate_rows(RowShape shape, In dy, WideOut db) const;
  void matmul_gelu(MatmulShape shape, In x, In w, In bias, Out before, Out y) const;
  void matmul_transposed_gelu_backward(MatmulShape shape, In x, In w, In before, Out dx) const;
  void accumulate_product_and_rows(MatmulShape shape, In x, In dy, WideOut dw, WideOut db) const;

  void layer_norm(RowShape shape, const NormForward<Stored, float>& spans) const;
  void layer_norm_backward(RowShape shape, const NormBackward<Stored, float>& spans) const;
  void layer_norm_backward_weight(RowShape shape,
                                  const NormBackwardWeight<Stored, float>& spans) const;

  void gelu(In x, Out y) const;
  void gelu_backward(In x, In dy, Out dx) const;

  void attention(AttentionShape shape, const AttentionForward<Stored, float>& spans) const;
  void attention_backward(AttentionShape shape,
                          const AttentionBackward<Stored, float>& spans) const;

  void keep_tokens(Ids tokens, WideOut kept) const;
  void embed(AttentionShape shape, WideIn tokens, In table, In positions, Out y) const;
  void embed_backward(AttentionShape shape, WideIn tokens, In dy, WideOut dtable,
                      WideOut dpositions) const;

  void cross_entropy(RowShape shape, Ids targets, double scale, Out logits, double* loss) const;
  void squared_error(RowShape shape, In y, WideIn expected, double scale, Out gradient,
                     double* loss) const;

  void decide(std::span<const double> squares, const DecideNumbers& numbers,
              const UpdateDecision* before, UpdateDecision* decision) const;
  void step(OptimizerKind kind, const StepSpans<Stored, float>& spans,
            const StepNumbers& numbers) const;

 private:
  Context* context_;
};

// Not in the class, for there they would be inline: a compiler that knows no GPU must leave them to
// the one that does.

template <class Context, class Stored>
void KernelSet<Context, Stored>::fill(WideOut y, double value) const {
  cuda::fill(*context_, y, value);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::copy(In x, Out y) const {
  cuda::copy(*context_, x, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::add(In a, In b, Out y) const {
  cuda::add(*context_, a, b, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::store(WideIn x, Out y) const {
  cuda::copy(*context_, x, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::copy(WideIn x, WideOut y) const
  requires kRounds
{
  cuda::copy(*context_, x, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::add(WideIn a, WideIn b, WideOut y) const
  requires kRounds
{
  cuda::add(*context_, a, b, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::sum_of_squares(WideIn x, double factor, double* sum) const {
  cuda::sum_of_squares(*context_, x, factor, sum);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::matmul(MatmulShape shape, In x, In w, In bias, Out y) const {
  context_->multiply(matmul_product<ProductSpans>(shape, x, w, bias, y));
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::matmul_transposed(MatmulShape shape, In x, In w, Out y) const {
  context_->multiply(matmul_transposed_product<ProductSpans>(shape, x, w, y));
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::accumulate_product(MatmulShape shape, In x, In dy,
                                                    WideOut dw) const {
  context_->multiply(accumulated_product<ProductSpans>(shape, x, dy, dw));
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::accumulate_rows(RowShape shape, In dy, WideOut db) const {
  cuda::accumulate_rows(*context_, shape, dy, db);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::matmul_gelu(MatmulShape shape, In x, In w, In bias, Out before,
                                             Out y) const {
  TANDEM_CHECK(before.size() == y.size(), before.size(), y.size());
  auto spans = matmul_product<ProductSpans>(shape, x, w, bias, y);
  spans.before_gelu = before.data();
  context_->multiply(spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::matmul_transposed_gelu_backward(MatmulShape shape, In x, In w,
                                                                 In before, Out dx) const {
  TANDEM_CHECK(before.size() == dx.size(), before.size(), dx.size());
  auto spans = matmul_transposed_product<ProductSpans>(shape, x, w, dx);
  spans.gelu_input = before.data();
  context_->multiply(spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::accumulate_product_and_rows(MatmulShape shape, In x, In dy,
                                                             WideOut dw, WideOut db) const {
  TANDEM_CHECK(std::ssize(db) == shape.columns, db.size(), shape.columns);
  auto spans = accumulated_product<ProductSpans>(shape, x, dy, dw);
  spans.column_sums = db.data();
  context_->multiply(spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::layer_norm(RowShape shape,
                                            const NormForward<Stored, float>& spans) const {
  cuda::layer_norm(*context_, shape, spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::layer_norm_backward(
    RowShape shape, const NormBackward<Stored, float>& spans) const {
  cuda::layer_norm_backward(*context_, shape, spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::layer_norm_backward_weight(
    RowShape shape, const NormBackwardWeight<Stored, float>& spans) const {
  cuda::layer_norm_backward_weight(*context_, shape, spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::gelu(In x, Out y) const {
  cuda::gelu(*context_, x, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::gelu_backward(In x, In dy, Out dx) const {
  cuda::gelu_backward(*context_, x, dy, dx);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::attention(AttentionShape shape,
                                           const AttentionForward<Stored, float>& spans) const {
  cuda::attention(*context_, shape, spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::attention_backward(
    AttentionShape shape, const AttentionBackward<Stored, float>& spans) const {
  cuda::attention_backward(*context_, shape, spans);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::keep_tokens(Ids tokens, WideOut kept) const {
  constexpr std::int32_t kTokenLimit = 1 << 24;  // beyond, float skips integers
  for (const std::int32_t token : tokens) TANDEM_CHECK(token >= 0 && token < kTokenLimit, token);
  cuda::keep_tokens(*context_, tokens, kept);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::embed(AttentionShape shape, WideIn tokens, In table, In positions,
                                       Out y) const {
  cuda::embed(*context_, shape, tokens, table, positions, y);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::embed_backward(AttentionShape shape, WideIn tokens, In dy,
                                                WideOut dtable, WideOut dpositions) const {
  cuda::embed_backward(*context_, shape, tokens, dy, dtable, dpositions);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::cross_entropy(RowShape shape, Ids targets, double scale,
                                               Out logits, double* loss) const {
  for (const std::int32_t target : targets)
    TANDEM_CHECK(target >= 0 && target < shape.width, target, shape.width);
  cuda::cross_entropy(*context_, shape, targets, scale, logits, loss);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::squared_error(RowShape shape, In y, WideIn expected, double scale,
                                               Out gradient, double* loss) const {
  cuda::squared_error(*context_, shape, y, expected, scale, gradient, loss);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::decide(std::span<const double> squares,
                                        const DecideNumbers& numbers, const UpdateDecision* before,
                                        UpdateDecision* decision) const {
  cuda::decide(*context_, squares, numbers, before, decision);
}

template <class Context, class Stored>
void KernelSet<Context, Stored>::step(OptimizerKind kind, const StepSpans<Stored, float>& spans,
                                      const StepNumbers& numbers) const {
  with_rule(kind, [&](auto rule) { cuda::step<decltype(rule)>(*context_, spans, numbers); });
}

}  // namespace tandem::cuda
