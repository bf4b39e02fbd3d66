#pragma once
// The kernels for float and double. All but the products of matrices are portable C++, bit for bit
// the same on every machine of one C library: what is fused is written so, sums run in a fixed
// order, and instruction sets differ only in speed. Products come from an engine (products.h).

#include <cstdint>
#include <span>

#include "executor/backend/kernels.h"
#include "executor/cpu/gemm.h"

namespace tandem::cpu {

/// May be shared by threads. The contract is tandem::Kernels (executor/backend/kernels.h).
template <class T>
class Kernels {
 public:
  using Scalar = T;
  using Wide = T;
  using In = std::span<const T>;
  using Out = std::span<T>;
  using Product = void (*)(const Gemm<T>&);

  /// Float: by this process's engine (products.h). Double: portable.
  Kernels();
  explicit Kernels(Product product) : product_(product), block_product_(gemm<T>) {}

  static T rounded(T value) { return value; }
  static T widened(T value) { return value; }
  void fill(Out y, double value) const;
  void copy(In x, Out y) const;
  void store(In x, Out y) const { copy(x, y); }
  void add(In a, In b, Out y) const;
  void combine(double a, In x, double b, In y, Out out) const;
  void sums_of_squares(In x, std::span<const ElementRange> ranges, double factor,
                       std::span<double> sums) const;

  void matmul(MatmulShape shape, In x, In w, In bias, Out y) const;
  void matmul_transposed(MatmulShape shape, In x, In w, Out y) const;
  void accumulate_product(MatmulShape shape, In x, In dy, Out dw) const;
  void accumulate_rows(RowShape shape, In dy, Out db) const;
  void matmul_gelu(MatmulShape shape, In x, In w, In bias, Out before, Out y) const {
    matmul(shape, x, w, bias, before);
    gelu(before, y);
  }
  void matmul_transposed_gelu_backward(MatmulShape shape, In x, In w, In before, Out dx) const {
    matmul_transposed(shape, x, w, dx);
    gelu_backward(before, dx, dx);
  }
  void accumulate_product_and_rows(MatmulShape shape, In x, In dy, Out dw, Out db) const {
    accumulate_product(shape, x, dy, dw);
    accumulate_rows({.rows = shape.rows, .width = shape.columns}, dy, db);
  }

  void layer_norm(RowShape shape, const NormForward<T>& spans) const;
  void layer_norm_backward(RowShape shape, const NormBackward<T>& spans) const;
  void layer_norm_backward_weight(RowShape shape, const NormBackwardWeight<T>& spans) const;

  void rms_norm(RowShape shape, const NormForward<T>& spans) const;
  void rms_norm_backward(RowShape shape, const NormBackward<T>& spans) const;
  void rms_norm_backward_weight(RowShape shape, const NormBackwardWeight<T>& spans) const;
  void head_norm(AttentionShape shape, const HeadNormForward<T>& spans) const;
  void head_norm_backward(AttentionShape shape, const HeadNormBackward<T>& spans) const;
  void head_norm_backward_weight(AttentionShape shape,
                                 const HeadNormBackwardWeight<T>& spans) const;

  void swiglu(RowShape shape, In gate_up, Out y) const;
  void matmul_transposed_swiglu_backward(MatmulShape shape, In x, In w, In gate_up,
                                         Out gradient) const;

  void gelu(In x, Out y) const;
  void gelu_backward(In x, In dy, Out dx) const;

  void rotate(AttentionShape shape, const Rotation& rotation, Out qkv) const;
  void attention(AttentionShape shape, const AttentionForward<T>& spans) const;
  void attention_backward(AttentionShape shape, const AttentionBackward<T>& spans) const;

  void keep_tokens(std::span<const std::int32_t> tokens, Out kept) const;
  void embed(AttentionShape shape, In tokens, In table, In positions, Out y) const;
  void embed_backward(AttentionShape shape, In tokens, In dy, Out dtable, Out dpositions) const;

  void cross_entropy(RowShape shape, std::span<const std::int32_t> targets, double scale,
                     Out logits, double* loss) const;
  void squared_error(RowShape shape, In y, In expected, double scale, Out gradient,
                     double* loss) const;

  void decide(std::span<const double> squares, const DecideNumbers& numbers,
              const UpdateDecision* before, UpdateDecision* decision,
              const ShownDecision& shown) const;
  void step(OptimizerKind kind, const StepSpans<T>& spans, const StepNumbers& numbers) const;
  void nesterov(const NesterovSpans<T>& spans, const StepNumbers& numbers) const;
  void divide_by_norm(In x, std::span<const double> square, Out y) const;

 private:
  Product product_, block_product_;
};

template <>
Kernels<float>::Kernels();
template <>
Kernels<double>::Kernels();
extern template class Kernels<float>;
extern template class Kernels<double>;

static_assert(tandem::Kernels<Kernels<float>> && tandem::Kernels<Kernels<double>>);

}  // namespace tandem::cpu
