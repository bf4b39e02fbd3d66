#pragma once
// Optimizer steps and the decision they wait for. A step reads the decision when it runs, so the
// host need not know it: scaling, clipping, the step, and a copy of the weights in bfloat16 are one
// pass.

#include <cmath>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"

namespace tandem::cuda {

/// From sums of squares in ascending order: one thread, for they are few.
struct Decide {
  std::int64_t count;
  const double* squares;
  DecideNumbers numbers;
  const UpdateDecision* before;
  UpdateDecision* decision;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      if (thread == 0) *decision = decide();
    });
  }

 private:
  TANDEM_DEVICE UpdateDecision decide() const {
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += squares[i];
    UpdateDecision made;
    made.norm = std::sqrt(sum);
    const bool finite = sum - sum == 0.0;
    if (!finite) {
      made.skip = 1.0;
    } else if (numbers.clips && made.norm > numbers.most_norm) {
      made.scale = numbers.most_norm / made.norm;
    }
    made.steps = (before == nullptr ? 0.0 : before->steps) + (finite ? 1.0 : 0.0);
    made.correction1 = 1.0 - std::pow(numbers.beta1, made.steps);
    made.correction2 = 1.0 - std::pow(numbers.beta2, made.steps);
    return made;
  }
};

/// Numbers of a step as kernels use them.
struct StepFactors {
  float rate, scale, decay, epsilon, keep1, take1, keep2, take2, correct1, correct2;

  TANDEM_DEVICE explicit StepFactors(const StepNumbers& n)
      : rate(static_cast<float>(n.learning_rate)),
        scale(static_cast<float>(n.decision == nullptr ? n.gradient_scale
                                                       : n.gradient_scale * n.decision->scale)),
        decay(static_cast<float>(n.weight_decay)),
        epsilon(static_cast<float>(n.epsilon)),
        keep1(static_cast<float>(n.beta1)),
        take1(static_cast<float>(1.0 - n.beta1)),
        keep2(static_cast<float>(n.beta2)),
        take2(static_cast<float>(1.0 - n.beta2)),
        correct1(static_cast<float>(
            1.0 / (n.decision == nullptr ? n.correction1 : n.decision->correction1))),
        correct2(static_cast<float>(
            1.0 / (n.decision == nullptr ? n.correction2 : n.decision->correction2))) {}
};

// A rule makes of a gradient, already scaled, what is taken off the weight but for the learning
// rate; `first` and `second` are its state.

struct SgdRule {
  static constexpr int kStates = 0;
  TANDEM_DEVICE static float change(const StepFactors& /*factors*/, float gradient,
                                    float& /*first*/, float& /*second*/) {
    return gradient;
  }
};

struct MomentumRule {
  static constexpr int kStates = 1;
  TANDEM_DEVICE static float change(const StepFactors& factors, float gradient, float& first,
                                    float& /*second*/) {
    first = std::fma(factors.keep1, first, factors.take1 * gradient);
    return first;
  }
};

struct AdamwRule {
  static constexpr int kStates = 2;
  TANDEM_DEVICE static float change(const StepFactors& factors, float gradient, float& first,
                                    float& second) {
    first = std::fma(factors.keep1, first, factors.take1 * gradient);
    second = std::fma(factors.keep2, second, factors.take2 * gradient * gradient);
    return first * factors.correct1 / (std::sqrt(second * factors.correct2) + factors.epsilon);
  }
};

template <class Rule, class A>
struct StepElements {
  std::int64_t count;
  const float *weights, *gradient;
  float *first, *second, *out;  // out null: the state alone is stepped
  A* rounded;                   // null: not wanted
  bool keeps_state;
  StepNumbers numbers;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      const bool skips = numbers.decision != nullptr && numbers.decision->skip != 0.0;
      const StepFactors factors(numbers);
      const std::int64_t stride = block.blocks() * block.threads();
      for (std::int64_t i = block.index() * block.threads() + thread; i < count; i += stride) {
        const float made = skips ? weights[i] : step(factors, i);
        if (out != nullptr) out[i] = made;
        if (rounded != nullptr) rounded[i] = narrow<A>(made);
      }
    });
  }

 private:
  TANDEM_DEVICE float step(const StepFactors& factors, std::int64_t i) const {
    float mean = 0.0F, square = 0.0F;
    if constexpr (Rule::kStates > 0) mean = first[i];
    if constexpr (Rule::kStates > 1) square = second[i];
    const float change = Rule::change(factors, factors.scale * gradient[i], mean, square);
    if (!keeps_state) {
      if constexpr (Rule::kStates > 0) first[i] = mean;
      if constexpr (Rule::kStates > 1) second[i] = square;
    }
    return std::fma(-factors.rate, std::fma(factors.decay, weights[i], change), weights[i]);
  }
};

/// As Kernels::decide().
template <class Grid>
void decide(Grid& grid, std::span<const double> squares, const DecideNumbers& numbers,
            const UpdateDecision* before, UpdateDecision* decision) {
  grid.run({.blocks = 1}, Decide{std::ssize(squares), squares.data(), numbers, before, decision});
}

/// As Kernels::step_…().
template <class Rule, class Grid, class A>
void step(Grid& grid, const StepSpans<A, float>& spans, const StepNumbers& numbers) {
  const std::size_t size = spans.weights.size(), out = spans.weights_out.size();
  TANDEM_CHECK(spans.gradient.size() == size && (out == size || out == 0) &&
                   (spans.rounded.size() == size || spans.rounded.empty()),
               spans.gradient.size(), out, spans.rounded.size(), size);
  TANDEM_CHECK(spans.first.size() == (Rule::kStates > 0 ? size : 0) &&
                   spans.second.size() == (Rule::kStates > 1 ? size : 0),
               spans.first.size(), spans.second.size(), size);
  grid.run(grid_of_elements(std::ssize(spans.weights)),
           StepElements<Rule, A>{.count = std::ssize(spans.weights),
                                 .weights = spans.weights.data(),
                                 .gradient = spans.gradient.data(),
                                 .first = spans.first.data(),
                                 .second = spans.second.data(),
                                 .out = out == 0 ? nullptr : spans.weights_out.data(),
                                 .rounded = spans.rounded.empty() ? nullptr : spans.rounded.data(),
                                 .keeps_state = spans.keeps_state,
                                 .numbers = numbers});
}

}  // namespace tandem::cuda
