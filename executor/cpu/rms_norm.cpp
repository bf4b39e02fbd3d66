// RMS norms: of rows, and of the heads of queries and keys.

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {
namespace {

/// y = gain · x · inverse; returns the inverse. `y` may be x.
template <class T>
TANDEM_LOOPS inline T norm_row(const T* x, const T* gain, T* y, std::size_t width, T epsilon) {
  const auto square = [x](std::size_t i) TANDEM_LOOPS { return x[i] * x[i]; };
  const T mean = lane_sum<T>(width, square) / static_cast<T>(width);
  const T inverse = T{1} / std::sqrt(mean + epsilon);
  for (std::size_t i = 0; i < width; ++i) y[i] = x[i] * inverse * gain[i];
  return inverse;
}

/// dx = residual + the gradient through the norm; a null residual: none. `dx` may be dy.
template <class T>
TANDEM_LOOPS inline void norm_row_backward(const T* x, T inverse, const T* gain, const T* dy,
                                           const T* residual, T* dx, std::size_t width) {
  const auto product = [=](std::size_t i)
                           TANDEM_LOOPS { return dy[i] * gain[i] * (x[i] * inverse); };
  const T along = lane_sum<T>(width, product) / static_cast<T>(width);
  for (std::size_t i = 0; i < width; ++i) {
    const T rest = fused(-(x[i] * inverse), along, dy[i] * gain[i]);
    dx[i] = residual == nullptr ? inverse * rest : fused(inverse, rest, residual[i]);
  }
}

template <class T>
TANDEM_LOOPS inline void add_gain_gradient(const T* x, T inverse, const T* dy, T* dgain,
                                           std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) dgain[i] = fused(dy[i], x[i] * inverse, dgain[i]);
}

/// Sizes of a row of queries and keys.
struct HeadRows {
  std::size_t rows, heads, key_heads, width, qkv;  // width: of a head
  explicit HeadRows(const AttentionShape& shape)
      : rows(static_cast<std::size_t>(shape.rows())),
        heads(static_cast<std::size_t>(shape.heads)),
        key_heads(static_cast<std::size_t>(shape.key_heads())),
        width(static_cast<std::size_t>(shape.head_width())),
        qkv(static_cast<std::size_t>(shape.qkv_width())) {}
  std::size_t all() const { return heads + key_heads; }
};

}  // namespace

template <class T>
void Kernels<T>::rms_norm(RowShape shape, const NormForward<T>& spans) const {
  check_sizes(shape.rows * shape.width, spans.x, In(spans.y));
  check_size(spans.inverse_deviation, shape.rows);
  check_size(spans.gain, shape.width);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    const auto width = static_cast<std::size_t>(shape.width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rows); ++row) {
      spans.inverse_deviation[row] =
          norm_row(spans.x.data() + row * width, spans.gain.data(), spans.y.data() + row * width,
                   width, static_cast<T>(spans.epsilon));
    }
  });
}

template <class T>
void Kernels<T>::rms_norm_backward(RowShape shape, const NormBackward<T>& spans) const {
  check_sizes(shape.rows * shape.width, spans.x, spans.dy, In(spans.dx));
  check_size(spans.inverse_deviation, shape.rows);
  if (!spans.residual.empty()) check_size(spans.residual, shape.rows * shape.width);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    const auto width = static_cast<std::size_t>(shape.width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rows); ++row) {
      const std::size_t at = row * width;
      norm_row_backward(spans.x.data() + at, spans.inverse_deviation[row], spans.gain.data(),
                        spans.dy.data() + at,
                        spans.residual.empty() ? nullptr : spans.residual.data() + at,
                        spans.dx.data() + at, width);
    }
  });
}

template <class T>
void Kernels<T>::rms_norm_backward_weight(RowShape shape,
                                          const NormBackwardWeight<T>& spans) const {
  check_sizes(shape.rows * shape.width, spans.x, spans.dy);
  check_size(spans.inverse_deviation, shape.rows);
  check_size(spans.dgain, shape.width);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    const auto width = static_cast<std::size_t>(shape.width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape.rows); ++row) {
      add_gain_gradient(spans.x.data() + row * width, spans.inverse_deviation[row],
                        spans.dy.data() + row * width, spans.dgain.data(), width);
    }
  });
}

template <class T>
void Kernels<T>::head_norm(AttentionShape shape, const HeadNormForward<T>& spans) const {
  check_head_norm(shape, spans);
  const HeadRows of(shape);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    for (std::size_t row = 0; row < of.rows; ++row) {
      T* qkv = spans.qkv.data() + row * of.qkv;
      T* before = spans.before.data() + row * of.all() * of.width;
      std::copy_n(qkv, of.all() * of.width, before);
      for (std::size_t head = 0; head < of.all(); ++head) {
        const T* gain = (head < of.heads ? spans.query_gain : spans.key_gain).data();
        spans.inverse_deviation[row * of.all() + head] =
            norm_row(before + head * of.width, gain, qkv + head * of.width, of.width,
                     static_cast<T>(spans.epsilon));
      }
    }
  });
}

template <class T>
void Kernels<T>::head_norm_backward(AttentionShape shape, const HeadNormBackward<T>& spans) const {
  check_head_norm(shape, spans);
  const HeadRows of(shape);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    for (std::size_t row = 0; row < of.rows; ++row) {
      T* dqkv = spans.dqkv.data() + row * of.qkv;
      const T* before = spans.before.data() + row * of.all() * of.width;
      T* dy = spans.dy.data() + row * of.all() * of.width;
      std::copy_n(dqkv, of.all() * of.width, dy);
      for (std::size_t head = 0; head < of.all(); ++head) {
        const T* gain = (head < of.heads ? spans.query_gain : spans.key_gain).data();
        const std::size_t at = head * of.width;
        norm_row_backward<T>(before + at, spans.inverse_deviation[row * of.all() + head], gain,
                             dy + at, nullptr, dqkv + at, of.width);
      }
    }
  });
}

template <class T>
void Kernels<T>::head_norm_backward_weight(AttentionShape shape,
                                           const HeadNormBackwardWeight<T>& spans) const {
  check_head_norm(shape, spans);
  const HeadRows of(shape);
  on_widest_vectors([=, &spans]() TANDEM_LOOPS {
    for (std::size_t row = 0; row < of.rows; ++row) {
      for (std::size_t head = 0; head < of.all(); ++head) {
        const std::size_t at = (row * of.all() + head) * of.width;
        T* dgain = (head < of.heads ? spans.dquery_gain : spans.dkey_gain).data();
        add_gain_gradient(spans.before.data() + at, spans.inverse_deviation[row * of.all() + head],
                          spans.dy.data() + at, dgain, of.width);
      }
    }
  });
}

template void Kernels<float>::rms_norm(RowShape, const NormForward<float>&) const;
template void Kernels<float>::rms_norm_backward(RowShape, const NormBackward<float>&) const;
template void Kernels<float>::rms_norm_backward_weight(RowShape,
                                                       const NormBackwardWeight<float>&) const;
template void Kernels<float>::head_norm(AttentionShape, const HeadNormForward<float>&) const;
template void Kernels<float>::head_norm_backward(AttentionShape,
                                                 const HeadNormBackward<float>&) const;
template void Kernels<float>::head_norm_backward_weight(AttentionShape,
                                                        const HeadNormBackwardWeight<float>&) const;
template void Kernels<double>::rms_norm(RowShape, const NormForward<double>&) const;
template void Kernels<double>::rms_norm_backward(RowShape, const NormBackward<double>&) const;
template void Kernels<double>::rms_norm_backward_weight(RowShape,
                                                        const NormBackwardWeight<double>&) const;
template void Kernels<double>::head_norm(AttentionShape, const HeadNormForward<double>&) const;
template void Kernels<double>::head_norm_backward(AttentionShape,
                                                  const HeadNormBackward<double>&) const;
template void Kernels<double>::head_norm_backward_weight(
    AttentionShape, const HeadNormBackwardWeight<double>&) const;

}  // namespace tandem::cpu
