#pragma once
// Kernels in which no element knows of another. `A`: float or Bf16; all compute in float.

#include <cmath>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"

namespace tandem::cuda {

template <class A>
struct Fill {
  A* y;
  float value;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    Pack<N> pack;
    for (float& each : pack.values) each = value;
    place.store(y, pack);
  }
};

template <class From, class To>
struct Convert {
  const From* x;
  To* y;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    place.store(y, place.load(x));
  }
};

template <class A>
struct Add {
  const A *a, *b;
  A* y;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    Pack<N> sum = place.load(a);
    const Pack<N> other = place.load(b);
    for (int i = 0; i < N; ++i) sum[i] += other[i];
    place.store(y, sum);
  }
};

/// out = a·x + b·y.
template <class A>
struct Combine {
  float a, b;
  const A *x, *y;
  A* out;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    Pack<N> sum = place.load(x);
    const Pack<N> other = place.load(y);
    for (int i = 0; i < N; ++i) sum[i] = std::fma(a, sum[i], b * other[i]);
    place.store(out, sum);
  }
};

// gelu(x) = ½x(1 + tanh u) = x·σ(2u), u = √(2/π)·(x + 0.044715x³).
inline constexpr float kGeluSlope = 1.5957691216057308F;  // 2·√(2/π)
inline constexpr float kGeluCubic = 1.5957691216057308F * 0.044715F;

TANDEM_DEVICE inline float gelu_gate(float x) {
  return 1.0F / (1.0F + std::exp(-x * std::fma(kGeluCubic * x, x, kGeluSlope)));
}

template <class A>
struct Gelu {
  const A* x;
  A* y;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    Pack<N> pack = place.load(x);
    for (float& each : pack.values) each *= gelu_gate(each);
    place.store(y, pack);
  }
};

TANDEM_DEVICE inline float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  const float slope = std::fma(3 * kGeluCubic * x, x, kGeluSlope);
  return std::fma(x * gate * (1.0F - gate), slope, gate);
}

template <class A>
struct GeluBackward {
  const A *x, *dy;
  A* dx;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    Pack<N> pack = place.load(dy);
    const Pack<N> at = place.load(x);
    for (int i = 0; i < N; ++i) pack[i] *= gelu_slope(at[i]);
    place.store(dx, pack);
  }
};

TANDEM_DEVICE inline float logistic(float x) { return 1.0F / (1.0F + std::exp(-x)); }

/// y = silu(gate) · up, of rows of gate and up, `width` each.
template <class A>
struct Swiglu {
  std::int64_t width;
  const A* gate_up;
  A* y;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t at = i / width * width + i;  // two widths a row
    const float gate = to_float(gate_up[at]);
    y[i] = narrow<A>(gate * logistic(gate) * to_float(gate_up[at + width]));
  }
};

/// In the rows' second halves dy is, where the gradient of up will be.
template <class A>
struct SwigluBackward {
  std::int64_t width;
  const A* gate_up;
  A* gradient;
  TANDEM_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t at = i / width * width + i;
    const float gate = to_float(gate_up[at]), up = to_float(gate_up[at + width]);
    const float open = logistic(gate), dy = to_float(gradient[at + width]);
    gradient[at] = narrow<A>(dy * up * open * std::fma(gate, 1.0F - open, 1.0F));
    gradient[at + width] = narrow<A>(dy * gate * open);
  }
};

template <class Grid, class A>
void fill(Grid& grid, std::span<A> y, float value) {
  run_each_pack(grid, std::ssize(y), Fill<A>{y.data(), value}, y.data());
}

/// Copies, and rounds where the types ask for it.
template <class Grid, class From, class To>
void copy(Grid& grid, std::span<const From> x, std::span<To> y) {
  TANDEM_CHECK(x.size() == y.size(), x.size(), y.size());
  run_each_pack(grid, std::ssize(y), Convert<From, To>{x.data(), y.data()}, x.data(), y.data());
}

/// y = a + b; y may be either.
template <class Grid, class A>
void add(Grid& grid, std::span<const A> a, std::span<const A> b, std::span<A> y) {
  TANDEM_CHECK(a.size() == y.size() && b.size() == y.size(), a.size(), b.size(), y.size());
  run_each_pack(grid, std::ssize(y), Add<A>{a.data(), b.data(), y.data()}, a.data(), b.data(),
                y.data());
}

/// `out` may be either.
template <class Grid, class A>
void combine(Grid& grid, double a, std::span<const A> x, double b, std::span<const A> y,
             std::span<A> out) {
  TANDEM_CHECK(x.size() == out.size() && y.size() == out.size(), x.size(), y.size(), out.size());
  run_each_pack(
      grid, std::ssize(out),
      Combine<A>{static_cast<float>(a), static_cast<float>(b), x.data(), y.data(), out.data()},
      x.data(), y.data(), out.data());
}

/// The tanh form of GPT-2.
template <class Grid, class A>
void gelu(Grid& grid, std::span<const A> x, std::span<A> y) {
  TANDEM_CHECK(x.size() == y.size(), x.size(), y.size());
  run_each_pack(grid, std::ssize(y), Gelu<A>{x.data(), y.data()}, x.data(), y.data());
}

/// dx may be dy.
template <class Grid, class A>
void gelu_backward(Grid& grid, std::span<const A> x, std::span<const A> dy, std::span<A> dx) {
  TANDEM_CHECK(x.size() == dx.size() && dy.size() == dx.size(), x.size(), dy.size(), dx.size());
  run_each_pack(grid, std::ssize(dx), GeluBackward<A>{x.data(), dy.data(), dx.data()}, x.data(),
                dy.data(), dx.data());
}

}  // namespace tandem::cuda
