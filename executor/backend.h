#pragma once
// What the executor needs of hardware: here the kernels that layers are written over.
//
// Kernels compute on spans of one scalar type, row-major and dense. They own no tensors, allocate
// nothing and keep no state between calls, so that a result depends on the arguments alone: not on
// the thread, nor on what ran before. REQUIRES of every call: spans are exactly as long as the
// shape says (checked), and outputs do not overlap inputs unless the comment allows it.

#include <concepts>
#include <cstdint>
#include <span>

namespace tandem {

/// (rows × inner) · (inner × columns).
struct MatmulShape {
  std::int64_t rows = 0, inner = 0, columns = 0;
};

/// `rows` vectors of `width` numbers.
struct RowShape {
  std::int64_t rows = 0, width = 0;
};

/// `batch` samples of `sequence` tokens of `width` channels, divided among `heads`.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, width = 0;
};

/// y = gain · (x − mean) · inverse_deviation + bias, by rows; mean and inverse_deviation are
/// outputs too.
template <class T>
struct NormForward {
  std::span<const T> x, gain, bias;
  std::span<T> mean, inverse_deviation, y;
};

/// dx = residual + the gradient through the norm. `residual` may be empty: none.
template <class T>
struct NormBackward {
  std::span<const T> x = {}, mean = {}, inverse_deviation = {}, gain = {}, dy = {}, residual = {};
  std::span<T> dx = {};
};

/// dgain += …, dbias += …
template <class T>
struct NormBackwardWeight {
  std::span<const T> x, mean, inverse_deviation, dy;
  std::span<T> dgain, dbias;
};

/// qkv: rows of 3·width, query, key, value. log_sum: log of the softmax's denominator, (batch,
/// heads, sequence).
template <class T>
struct AttentionForward {
  std::span<const T> qkv;
  std::span<T> log_sum, y;
};

template <class T>
struct AttentionBackward {
  std::span<const T> qkv, log_sum, y, dy;
  std::span<T> dqkv;
};

/// One step of an optimizer on one tensor. `weights_out` may be `weights`; empty: only the state is
/// stepped.
template <class T>
struct StepSpans {
  std::span<const T> weights = {}, gradient = {};
  std::span<T> first = {}, second = {};  // state; as many as the optimizer keeps
  std::span<T> weights_out = {};
  bool keeps_state = false;  // the state is read, but stays as it is
};

/// Numbers of one step. `weight_decay` is decoupled: weights lose learning_rate · weight_decay of
/// themselves.
struct StepNumbers {
  double learning_rate = 0.0;
  double gradient_scale = 1.0;  // gradients are multiplied by it first
  double weight_decay = 0.0;
  double beta1 = 0.0, beta2 = 0.0, epsilon = 0.0;
  double correction1 = 1.0, correction2 = 1.0;  // 1 − βᵗ; AdamW divides by them
};

/// `K` computes all that layers and optimizers need. Deterministic: equal arguments give equal
/// bits.
template <class K, class T = typename K::Scalar>
concept Kernels = requires(K k, MatmulShape matmul, RowShape rows, AttentionShape attention,
                           std::span<const std::int32_t> ids, std::span<const T> in,
                           std::span<T> out, double number) {
  k.fill(out, number);
  k.copy(in, out);
  /// out = in + in; out may be either.
  k.add(in, in, out);
  /// In double, in an order of its own that depends on the length alone.
  { k.sum_of_squares(in) } -> std::same_as<double>;

  /// y = x·w + bias (`bias` may be empty); y = x·wᵀ; dw += xᵀ·dy; db += Σ rows of dy. In
  /// `accumulate_product` the contracted dimension is `rows`. Every sum adds in ascending order of
  /// the contracted index.
  k.matmul(matmul, in, in, in, out);          // x, w, bias, y
  k.matmul_transposed(matmul, in, in, out);   // x, w (columns × inner), y
  k.accumulate_product(matmul, in, in, out);  // x (rows × inner), dy (rows × columns), dw
  k.accumulate_rows(rows, in, out);           // dy, db

  k.layer_norm(rows, NormForward<T>{});
  k.layer_norm_backward(rows, NormBackward<T>{});
  k.layer_norm_backward_weight(rows, NormBackwardWeight<T>{});

  /// The tanh form of GPT-2. dx may be dy.
  k.gelu(in, out);
  k.gelu_backward(in, in, out);  // x, dy, dx

  /// Causal. Divides by the root of the head's width.
  k.attention(attention, AttentionForward<T>{});
  k.attention_backward(attention, AttentionBackward<T>{});

  /// Token ids become numbers, exactly (ids < 2²⁴), so that a stash can keep them.
  k.keep_tokens(ids, out);
  /// y = table[token] + positions[position].
  k.embed(attention, in, in, in, out);            // kept tokens, table, positions, y
  k.embed_backward(attention, in, in, out, out);  // kept tokens, dy, dtable +=, dpositions +=

  /// Replaces logits by scale · dloss/dlogits of the sum over rows; returns the mean loss over
  /// rows.
  { k.cross_entropy(rows, ids, number, out) } -> std::same_as<double>;
  /// gradient = scale · (y − expected); returns ½·Σ(y − expected)² / rows.
  { k.squared_error(rows, in, in, number, out) } -> std::same_as<double>;

  k.step_sgd(StepSpans<T>{}, StepNumbers{});
  k.step_momentum(StepSpans<T>{}, StepNumbers{});
  k.step_adamw(StepSpans<T>{}, StepNumbers{});
};

}  // namespace tandem
