#pragma once
// What Muon makes of momenta besides products: elements alone, and one number for all.

#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/step_rules.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"
#include "executor/cuda/kernels/steps.h"

namespace tandem::cuda {

/// As NesterovSpans says. `slope` null: not wanted.
struct NesterovElements {
  static constexpr int kPack = kPackOf<float>;

  std::int64_t count;
  const float* gradient;
  float *momentum, *slope;
  bool keeps_state, whole;
  StepNumbers numbers;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    each_pack_as_decided(block, numbers, 0, count, whole,
                         [&](const DecidedStep& decided, const PackPlace<kPack>& place) {
                           const Pack<kPack> given = place.load(gradient);
                           Pack<kPack> mean = place.load(momentum), made{};
                           const StepFactors<float>& factors = decided.factors;
                           for (int j = 0; j < kPack; ++j)
                             made[j] = tandem::nesterov(factors, factors.scale * given[j], mean[j]);
                           if (slope != nullptr) place.store(slope, made);
                           if (!keeps_state && !decided.skips) place.store(momentum, mean);
                         });
  }
};

template <class A>
struct DivideByNorm {
  const float* x;
  const double* square;
  A* y;
  template <int N>
  TANDEM_DEVICE void operator()(const PackPlace<N>& place) const {
    const auto divisor = static_cast<float>(norm_divisor(*square));
    Pack<N> pack = place.load(x);
    for (float& each : pack.values) each /= divisor;
    place.store(y, pack);
  }
};

template <class Grid>
void nesterov(Grid& grid, const NesterovSpans<float>& spans, const StepNumbers& numbers) {
  check_nesterov(spans);
  const std::int64_t count = std::ssize(spans.gradient);
  float* const slope = spans.slope.empty() ? nullptr : spans.slope.data();
  GridShape shape = grid_of_elements(divide_up(count, kPackOf<float>));
  shape.shared_bytes = shared_bytes<DecidedStep>(1);
  grid.run(shape, NesterovElements{
                      .count = count,
                      .gradient = spans.gradient.data(),
                      .momentum = spans.momentum.data(),
                      .slope = slope,
                      .keeps_state = spans.keeps_state,
                      .whole = packs_are_whole(spans.gradient.data(), spans.momentum.data(), slope),
                      .numbers = numbers});
}

template <class Grid, class A>
void divide_by_norm(Grid& grid, std::span<const float> x, std::span<const double> square,
                    std::span<A> y) {
  TANDEM_CHECK(x.size() == y.size() && square.size() == 1, x.size(), y.size(), square.size());
  run_each_pack(grid, std::ssize(y), DivideByNorm<A>{x.data(), square.data(), y.data()}, x.data(),
                y.data());
}

}  // namespace tandem::cuda
