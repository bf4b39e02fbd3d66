#pragma once
// What layers, stages and optimizers are written over: kernels. Streams, events and memory, which
// DeviceMachine is written over, are executor/backend/backend.h's.
//
// Kernels compute on spans of two types, row-major and dense: Scalar, that activations and the
// weights that products read are stored as, and Wide, for what must not be rounded: statistics,
// gradients of weights, the weights that are trained and the optimizer's state. Mostly the two are
// one; where Scalar is bfloat16, Wide is float. They own no tensors, allocate
// nothing and keep no state between calls, so that a result depends on the arguments alone: not on
// the thread, nor on what ran before. REQUIRES of every call: spans are exactly as long as the
// shape says (checked), and outputs do not overlap inputs unless the comment allows it.
//
// A call may return before it has run: on a GPU it only launches. So kernels return nothing. What
// the host must learn they write where a pointer says, into memory that host and device share
// (Backend::results), and the host reads it when the stream has come that far (Backend::when_done).

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/base/check.h"
#include "core/model/model.h"
#include "core/schedule/reading.h"
#include "executor/backend/rotary.h"

namespace tandem {

/// (rows × inner) · (inner × columns).
struct MatmulShape {
  std::int64_t rows = 0, inner = 0, columns = 0;
};

/// `rows` vectors of `width` numbers.
struct RowShape {
  std::int64_t rows = 0, width = 0;
};

/// `batch` samples of `sequence` tokens whose queries have `width` channels, divided among `heads`.
/// Each head of keys and values serves as many neighbouring heads of queries. Of a slice: its own
/// tokens.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, width = 0;
  std::int64_t key_value_heads = 0;  // 0: a head of queries has its own

  constexpr std::int64_t rows() const { return batch * sequence; }
  constexpr std::int64_t head_width() const { return width / heads; }
  constexpr std::int64_t key_heads() const { return key_value_heads > 0 ? key_value_heads : heads; }
  constexpr std::int64_t key_width() const { return key_heads() * head_width(); }
  /// Of a row of queries, keys and values.
  constexpr std::int64_t qkv_width() const { return width + 2 * key_width(); }
  constexpr std::int64_t key_head_of(std::int64_t head) const {
    return head / (heads / key_heads());
  }
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Aborts unless a span is as long as a shape says.
template <class T>
void check_size(std::span<T> span, std::int64_t size) {
  TANDEM_CHECK(std::ssize(span) == size, span.size(), size);
}
template <class... T>
void check_sizes(std::int64_t size, std::span<T>... spans) {
  (check_size(spans, size), ...);
}

template <class T, class W>
void check_attention(const AttentionShape& shape, std::span<T> qkv, std::span<W> log_sum,
                     std::span<const std::remove_const_t<T>> y) {
  TANDEM_CHECK(shape.heads > 0 && shape.width % shape.heads == 0, shape.heads, shape.width);
  TANDEM_CHECK(shape.heads % shape.key_heads() == 0, shape.heads, shape.key_heads());
  const std::int64_t rows = shape.rows();
  check_size(qkv, rows * shape.qkv_width());
  check_size(log_sum, rows * shape.heads);
  check_size(y, rows * shape.width);
}

/// y = gain · (x − mean) · inverse_deviation + bias, by rows; mean and inverse_deviation are
/// outputs too. Of an RMS norm mean and bias are 0, and empty here and below.
template <class T, class W = T>
struct NormForward {
  std::span<const T> x, gain, bias;
  std::span<W> mean, inverse_deviation;
  std::span<T> y;
  double epsilon = 1e-5;  // added to the variance, or the mean square
};

/// dx = residual + the gradient through the norm. `residual` may be empty: none.
template <class T, class W = T>
struct NormBackward {
  std::span<const T> x = {};
  std::span<const W> mean = {}, inverse_deviation = {};
  std::span<const T> gain = {}, dy = {}, residual = {};
  std::span<T> dx = {};
};

/// dgain += …, dbias += …
template <class T, class W = T>
struct NormBackwardWeight {
  std::span<const T> x;
  std::span<const W> mean, inverse_deviation;
  std::span<const T> dy;
  std::span<W> dgain, dbias;
};

/// RMS norms of the channels of each head of queries and of keys, in qkv; a gain for the heads of
/// queries, one for those of keys. `before`: what they were, rows of width + key_width;
/// inverse_deviation: rows of heads + key_heads.
template <class T, class W = T>
struct HeadNormForward {
  std::span<const T> query_gain, key_gain;
  std::span<W> inverse_deviation;
  std::span<T> before, qkv;
  double epsilon = 1e-5;
};

/// The gradients of queries and keys in dqkv become those before the norm, and stay in dy as they
/// were, rows as in `before`.
template <class T, class W = T>
struct HeadNormBackward {
  std::span<const T> query_gain, key_gain;
  std::span<const W> inverse_deviation;
  std::span<const T> before;
  std::span<T> dqkv, dy;
};

/// dquery_gain += …, dkey_gain += …
template <class T, class W = T>
struct HeadNormBackwardWeight {
  std::span<const W> inverse_deviation;
  std::span<const T> before, dy;
  std::span<W> dquery_gain, dkey_gain;
};

template <class T, class W>
void check_head_norm(const AttentionShape& shape, const HeadNormForward<T, W>& spans) {
  check_sizes(shape.head_width(), spans.query_gain, spans.key_gain);
  check_size(spans.inverse_deviation, shape.rows() * (shape.heads + shape.key_heads()));
  check_size(spans.before, shape.rows() * (shape.width + shape.key_width()));
  check_size(spans.qkv, shape.rows() * shape.qkv_width());
}
template <class T, class W>
void check_head_norm(const AttentionShape& shape, const HeadNormBackward<T, W>& spans) {
  check_sizes(shape.head_width(), spans.query_gain, spans.key_gain);
  check_size(spans.inverse_deviation, shape.rows() * (shape.heads + shape.key_heads()));
  check_size(spans.before, shape.rows() * (shape.width + shape.key_width()));
  check_size(spans.dqkv, shape.rows() * shape.qkv_width());
  check_size(spans.dy, shape.rows() * (shape.width + shape.key_width()));
}
template <class T, class W>
void check_head_norm(const AttentionShape& shape, const HeadNormBackwardWeight<T, W>& spans) {
  check_sizes(shape.head_width(), spans.dquery_gain, spans.dkey_gain);
  check_size(spans.inverse_deviation, shape.rows() * (shape.heads + shape.key_heads()));
  check_sizes(shape.rows() * (shape.width + shape.key_width()), spans.before, spans.dy);
}

/// qkv: rows of qkv_width(), query, key, value. log_sum: log of the softmax's denominator, (batch,
/// heads, sequence). `earlier`: qkv of the tokens before these, a slice each, in order; all queries
/// see all of their keys. Its list is host memory. `kept`, where there is one, has the keys and
/// values in qkv's place, (batch, tokens, 2·key_width): of all tokens of a text, those at hand
/// last. The bits are then those of the whole text at once. Only with nothing earlier.
template <class T, class W = T>
struct AttentionForward {
  std::span<const T> qkv;
  std::span<W> log_sum;
  std::span<T> y;
  std::span<const std::span<const T>> earlier = {};
  std::span<const T> kept = {};
};

/// Tokens of each sample in `kept`.
template <class T>
std::int64_t kept_tokens(const AttentionShape& shape, std::span<const T> kept) {
  const std::int64_t row = 2 * shape.batch * shape.key_width();
  const std::int64_t tokens = std::ssize(kept) / row;
  TANDEM_CHECK(std::ssize(kept) == tokens * row && tokens >= shape.sequence, kept.size(), row);
  return tokens;
}

/// `context_gradient`: sums of the gradients of keys and values, (batch, whole sequence,
/// 2·key_width):
/// those of `earlier` are added to, and those of the tokens at hand, which later tokens have added
/// to, are where dqkv's sums begin. Empty: nobody adds to it, and nothing is earlier.
template <class T, class W = T>
struct AttentionBackward {
  std::span<const T> qkv;
  std::span<const W> log_sum;
  std::span<const T> y, dy;
  std::span<T> dqkv;
  std::span<const std::span<const T>> earlier = {};
  std::span<W> context_gradient = {};
};

/// Tokens of each sample in the slices before.
template <class T>
std::int64_t context_of(const AttentionShape& shape, std::span<const std::span<const T>> earlier) {
  std::int64_t tokens = 0;
  for (const std::span<const T> slice : earlier) {
    TANDEM_CHECK(std::ssize(slice) % (shape.batch * shape.qkv_width()) == 0, slice.size());
    tokens += std::ssize(slice) / (shape.batch * shape.qkv_width());
  }
  return tokens;
}

/// Tokens of each sample in the sums of gradients of keys and values. Aborts where those of the
/// tokens at hand, and of those before, are not among them.
template <class T, class W>
std::int64_t check_context(const AttentionShape& shape, const AttentionBackward<T, W>& spans) {
  const std::int64_t row = 2 * shape.batch * shape.key_width();
  const std::int64_t whole = std::ssize(spans.context_gradient) / row;
  const std::int64_t seen = context_of(shape, spans.earlier) + shape.sequence;
  check_size(spans.context_gradient, whole * row);
  TANDEM_CHECK(whole == 0 ? spans.earlier.empty() : seen <= whole, whole, seen);
  return whole;
}

/// What a step takes of an optimizer's moments after so many steps: the first divided by
/// `correction1`, the second by `correction2`, and of the gradient itself `slope_weight`. AdamW:
/// 1 − β₁ᵗ, 1 − β₂ᵗ and 0, t the steps.
struct MomentCorrections {
  double correction1 = 1.0, correction2 = 1.0, slope_weight = 0.0;
};

/// What was decided of an update's gradients: an output of decide(), which steps read. All of it
/// numbers, for devices pass it on as it lies in memory.
struct UpdateDecision {
  double norm = 0.0;   // of the gradients, before clipping
  double scale = 1.0;  // factor of the gradients
  double skip = 0.0;   // 1: they are not finite, weights and optimizer state stay
  double steps = 0.0;  // taken so far, this one included if it is not skipped
  double correction1 = 0.0, correction2 = 0.0, slope_weight = 0.0;  // MomentCorrections
};

/// Where the host reads what a decision was, and what it was made of. Null: not wanted.
struct ShownDecision {
  double* squares = nullptr;
  UpdateDecision* decision = nullptr;
};

/// Numbers of a decision: gradients longer than `most_norm` are scaled to it where it clips. An
/// optimizer that looks ahead (NAdam) has the momentum μ(t) = β₁ (1 − ½ · 0.96^(t ψ)) at step t, ψ
/// the `momentum_decay`.
struct DecideNumbers {
  bool clips = false;
  double most_norm = 0.0;
  double beta1 = 0.0, beta2 = 0.0;
  bool looks_ahead = false;
  double momentum_decay = 0.0;
  double steps_before = 0.0;  // taken before the first decision
};

/// Elements of a span: those before `last`, from `first` on.
struct ElementRange {
  std::int64_t first = 0, last = 0;
  constexpr std::int64_t size() const { return last - first; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// One step of an optimizer. `weights_out` may be `weights`; empty: only the state is stepped.
template <class T, class W = T>
struct StepSpans {
  std::span<const W> weights = {}, gradient = {};
  std::span<W> first = {}, second = {};  // state; as many as the optimizer keeps
  std::span<W> weights_out = {};
  bool keeps_state = false;   // the state is read, but stays as it is
  std::span<T> rounded = {};  // a copy of the weights made, as products read them; empty: none
  /// The weights made, as forwards and as backwards read them (core/schedule/reading.h); empty: not
  /// wanted. With `drift`, a correction's δ, those of backwards are corrected, else both are
  /// predicted, those of backwards only beside those of forwards. With any of them weights and
  /// state are stepped. Where a decision skips the step, a prediction is the weights, and δ and
  /// what is corrected stay.
  std::span<T> forward_weights = {}, backward_weights = {};
  std::span<W> drift = {};
  std::span<const ElementRange> decayed = {};  // ascending, apart; host memory
  std::span<W> last_step = {};  // state of a correction of delay; empty: none is made
  /// Of Muon's steps in the place of the gradient: what has been made of it, orthogonal.
  std::span<const T> change = {};
};

/// Momentum, and the slope that a step takes with Nesterov's look ahead: m ← β₁ m + (1 − β₁) g, β₁
/// m + (1 − β₁) g of the new m; g scaled as in steps. Empty: no slope is wanted. Where a decision
/// skips the step, or the state is kept, the momentum stays.
template <class W>
struct NesterovSpans {
  std::span<const W> gradient = {};
  std::span<W> momentum = {}, slope = {};
  bool keeps_state = false;
};

/// Numbers of one step. `weight_decay` is decoupled: weights that decay lose learning_rate ·
/// weight_decay of themselves.
struct StepNumbers {
  double learning_rate = 0.0;
  double gradient_scale = 1.0;  // gradients are multiplied by it first
  double change_scale = 1.0;    // StepSpans::change is multiplied by it, and by nothing else
  double weight_decay = 0.0;
  double beta1 = 0.0, beta2 = 0.0, epsilon = 0.0;
  double correction1 = 1.0, correction2 = 1.0, slope_weight = 0.0;  // MomentCorrections
  double steps = 1.0;           // taken so far, this one included; the first has none before it
  bool corrects_decay = false;  // decay is a part of the step whose delay is corrected
  Reading reading = {};         // of the planes that are made
  /// Read when the step runs, which the host can't do when it is launched. Its scale multiplies
  /// gradient_scale, its steps and corrections take the place of those above; where it skips, the
  /// state stays and weights_out becomes weights. Null: nothing was decided.
  const UpdateDecision* decision = nullptr;
};

/// What layers of Llama's kind need besides.
template <class K, class T, class W>
concept LlamaKernels = requires(K k, MatmulShape matmul, RowShape rows, AttentionShape attention,
                                std::span<const T> in, std::span<T> out) {
  k.rms_norm(rows, NormForward<T, W>{});
  k.rms_norm_backward(rows, NormBackward<T, W>{});
  k.rms_norm_backward_weight(rows, NormBackwardWeight<T, W>{});
  k.head_norm(attention, HeadNormForward<T, W>{});
  k.head_norm_backward(attention, HeadNormBackward<T, W>{});
  k.head_norm_backward_weight(attention, HeadNormBackwardWeight<T, W>{});

  /// y = silu(gate) · up, of rows of gate and up side by side, 2·width. The gradient of these, of
  /// dy = x·wᵀ, whose columns are y's.
  k.swiglu(rows, in, out);                                       // gates and ups, y
  k.matmul_transposed_swiglu_backward(matmul, in, in, in, out);  // x, w, gates and ups, gradient

  /// Turns the queries and keys of rows of queries, keys and values by their positions.
  k.rotate(attention, Rotation{}, out);
};

/// `K` computes all that layers and optimizers need. Deterministic: equal arguments give equal
/// bits.
template <class K, class T = typename K::Scalar, class W = typename K::Wide>
concept Kernels =
    LlamaKernels<K, T, W> &&
    requires(K k, MatmulShape matmul, RowShape rows, AttentionShape attention,
             std::span<const std::int32_t> ids, std::span<const T> in, std::span<T> out,
             std::span<const W> wide_in, std::span<W> wide, W value, double number, double* result,
             std::span<const ElementRange> ranges, std::span<double> sums,
             std::span<const double> squares, const UpdateDecision* before,
             UpdateDecision* decision) {
      /// As it is stored, and back, exactly; on the host.
      { K::rounded(value) } -> std::same_as<T>;
      { K::widened(K::rounded(value)) } -> std::same_as<W>;
      k.fill(wide, number);
      k.copy(in, out);
      k.store(wide_in, out);  // a copy, rounded
      k.copy(wide_in, wide);
      /// out = in + in; out may be either.
      k.add(in, in, out);
      k.add(wide_in, wide_in, wide);
      /// out = number · in + number · in; out may be either.
      k.combine(number, in, number, in, out);
      /// Results, one of each range of x: `number` · Σ x², in double, in an order of its own that
      /// depends on the range's length alone. Ranges are host memory.
      k.sums_of_squares(wide_in, ranges, number, sums);

      /// y = x·w + bias (`bias` may be empty); y = x·wᵀ; dw += xᵀ·dy; db += Σ rows of dy. In
      /// `accumulate_product` the contracted dimension is `rows`. Every sum adds in ascending order
      /// of the contracted index.
      k.matmul(matmul, in, in, in, out);           // x, w, bias, y
      k.matmul_transposed(matmul, in, in, out);    // x, w (columns × inner), y
      k.accumulate_product(matmul, in, in, wide);  // x (rows × inner), dy (rows × columns), dw
      k.accumulate_rows(rows, in, wide);           // dy, db
      /// Two of the calls in one, for hardware that gains by it: y = gelu(before), before = x·w +
      /// bias; dx = the gradient through GELU of `before`, of dy = x·wᵀ; dw += xᵀ·dy, db += Σ rows.
      k.matmul_gelu(matmul, in, in, in, out, out);                 // x, w, bias, before, y
      k.matmul_transposed_gelu_backward(matmul, in, in, in, out);  // x, w, before, dx
      k.accumulate_product_and_rows(matmul, in, in, wide, wide);   // x, dy, dw, db

      k.layer_norm(rows, NormForward<T, W>{});
      k.layer_norm_backward(rows, NormBackward<T, W>{});
      k.layer_norm_backward_weight(rows, NormBackwardWeight<T, W>{});
      /// The tanh form of GPT-2. dx may be dy.
      k.gelu(in, out);
      k.gelu_backward(in, in, out);  // x, dy, dx

      /// Causal. Divides by the root of the head's width.
      k.attention(attention, AttentionForward<T, W>{});
      k.attention_backward(attention, AttentionBackward<T, W>{});

      /// Token ids become numbers, exactly (ids < 2²⁴), so that a stash can keep them.
      k.keep_tokens(ids, wide);
      /// y = table[token] + positions[position]. Empty: no positions are learned.
      k.embed(attention, wide_in, in, in, out);  // kept tokens, table, positions, y
      k.embed_backward(attention, wide_in, in, wide,
                       wide);  // kept tokens, dy, dtable +=, dpositions +=

      /// Replaces logits by scale · dloss/dlogits of the sum over rows. Result: the mean loss over
      /// rows; null: not wanted.
      k.cross_entropy(rows, ids, number, out, result);
      /// gradient = scale · (y − expected). Result: ½·Σ(y − expected)² / rows; null: not wanted.
      k.squared_error(rows, in, wide_in, number, out, result);  // y, expected

      /// From the sums of squares of the tensors that are decided on together, added in their
      /// order. `before`: the decision on the update before this one; null: this is the first.
      k.decide(squares, DecideNumbers{}, before, decision, ShownDecision{});
      k.step(OptimizerKind{}, StepSpans<T, W>{}, StepNumbers{});
      k.nesterov(NesterovSpans<W>{}, StepNumbers{});
      /// out = in / max(√square, 1e-7), rounded; the square, a single number, is the kernels'.
      k.divide_by_norm(wide_in, squares, out);
    };

}  // namespace tandem
