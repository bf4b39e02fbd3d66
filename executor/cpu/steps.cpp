// What an update does: the decision on its gradients, and the optimizers' steps.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "core/base/check.h"
#include "executor/backend/guard_decision.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {

template <class T>
void Kernels<T>::decide(std::span<const double> squares, const DecideNumbers& numbers,
                        const UpdateDecision* before, UpdateDecision* decision) const {
  const GuardDecision guard = tandem::decide(numbers.clips, numbers.most_norm, squares);
  const double steps = (before != nullptr ? before->steps : 0.0) + (guard.skip ? 0.0 : 1.0);
  *decision = {.norm = guard.norm,
               .scale = guard.scale,
               .skip = guard.skip ? 1.0 : 0.0,
               .steps = steps,
               .correction1 = 1.0 - std::pow(numbers.beta1, steps),
               .correction2 = 1.0 - std::pow(numbers.beta2, steps)};
}

namespace {

template <class T>
void check_step(const StepSpans<T>& spans, std::size_t states) {
  const std::size_t size = spans.weights.size();
  const std::size_t out = spans.weights_out.size();
  TANDEM_CHECK(spans.gradient.size() == size && (out == size || out == 0), spans.gradient.size(),
               out, size);
  TANDEM_CHECK(spans.first.size() == (states > 0 ? size : 0) &&
                   spans.second.size() == (states > 1 ? size : 0),
               spans.first.size(), spans.second.size(), size, states);
}

/// Whether it was decided to skip the step: then the next version is as this one.
template <class T>
bool keeps_weights(const StepSpans<T>& spans, const StepNumbers& numbers) {
  if (numbers.decision == nullptr || numbers.decision->skip == 0.0) return false;
  if (!spans.weights_out.empty() && spans.weights_out.data() != spans.weights.data())
    std::copy(spans.weights.begin(), spans.weights.end(), spans.weights_out.begin());
  return true;
}

/// With what was decided of the gradients' scale and the step's number.
StepNumbers as_decided(StepNumbers numbers) {
  if (numbers.decision == nullptr) return numbers;
  numbers.gradient_scale *= numbers.decision->scale;
  numbers.correction1 = numbers.decision->correction1;
  numbers.correction2 = numbers.decision->correction2;
  return numbers;
}

/// Calls `loops` with what a step writes as constants, so that no loop asks.
template <class T, class Loops>
void with_results(const StepSpans<T>& spans, const Loops& loops) {
  if (spans.weights_out.empty()) {
    loops(std::bool_constant<false>(), std::bool_constant<true>());
  } else if (spans.keeps_state) {
    loops(std::bool_constant<true>(), std::bool_constant<false>());
  } else {
    loops(std::bool_constant<true>(), std::bool_constant<true>());
  }
}

}  // namespace

template <class T>
void Kernels<T>::step_sgd(const StepSpans<T>& spans, const StepNumbers& given) const {
  check_step(spans, 0);
  if (keeps_weights(spans, given)) return;
  const StepNumbers numbers = as_decided(given);
  const T rate = static_cast<T>(numbers.learning_rate);
  const T scale = static_cast<T>(numbers.gradient_scale);
  const T decay = static_cast<T>(numbers.weight_decay);
  const T *weights = spans.weights.data(), *gradients = spans.gradient.data();
  T* out = spans.weights_out.data();
  on_widest_vectors([=, size = spans.weights.size()]() TANDEM_LOOPS {
    for (std::size_t i = 0; i < size; ++i) {
      out[i] = fused(-rate, fused(decay, weights[i], scale * gradients[i]), weights[i]);
    }
  });
}

template <class T>
void Kernels<T>::step_momentum(const StepSpans<T>& spans, const StepNumbers& given) const {
  check_step(spans, 1);
  if (keeps_weights(spans, given)) return;
  const StepNumbers numbers = as_decided(given);
  const T rate = static_cast<T>(numbers.learning_rate);
  const T scale = static_cast<T>(numbers.gradient_scale);
  const T decay = static_cast<T>(numbers.weight_decay);
  const T keep = static_cast<T>(numbers.beta1);
  const T take = static_cast<T>(1.0 - numbers.beta1);
  const T *weights = spans.weights.data(), *gradients = spans.gradient.data();
  T *first = spans.first.data(), *out = spans.weights_out.data();
  with_results(spans, [=, size = spans.weights.size()]<bool kWeights, bool kState>(
                          std::bool_constant<kWeights>, std::bool_constant<kState>) {
    on_widest_vectors([=]() TANDEM_LOOPS {
      for (std::size_t i = 0; i < size; ++i) {
        const T velocity = fused(keep, first[i], take * (scale * gradients[i]));
        if constexpr (kState) first[i] = velocity;
        if constexpr (kWeights) {
          out[i] = fused(-rate, fused(decay, weights[i], velocity), weights[i]);
        }
      }
    });
  });
}

template <class T>
void Kernels<T>::step_adamw(const StepSpans<T>& spans, const StepNumbers& given) const {
  check_step(spans, 2);
  if (keeps_weights(spans, given)) return;
  const StepNumbers numbers = as_decided(given);
  const T rate = static_cast<T>(numbers.learning_rate);
  const T scale = static_cast<T>(numbers.gradient_scale);
  const T decay = static_cast<T>(numbers.weight_decay);
  const T epsilon = static_cast<T>(numbers.epsilon);
  const T keep1 = static_cast<T>(numbers.beta1), take1 = static_cast<T>(1.0 - numbers.beta1);
  const T keep2 = static_cast<T>(numbers.beta2), take2 = static_cast<T>(1.0 - numbers.beta2);
  const T correct1 = static_cast<T>(1.0 / numbers.correction1);
  const T correct2 = static_cast<T>(1.0 / numbers.correction2);
  const T *weights = spans.weights.data(), *gradients = spans.gradient.data();
  T *first = spans.first.data(), *second = spans.second.data(), *out = spans.weights_out.data();
  with_results(spans, [=, size = spans.weights.size()]<bool kWeights, bool kState>(
                          std::bool_constant<kWeights>, std::bool_constant<kState>) {
    on_widest_vectors([=]() TANDEM_LOOPS {
      for (std::size_t i = 0; i < size; ++i) {
        const T gradient = scale * gradients[i];
        const T mean = fused(keep1, first[i], take1 * gradient);
        const T square = fused(keep2, second[i], take2 * gradient * gradient);
        if constexpr (kState) first[i] = mean, second[i] = square;
        if constexpr (kWeights) {
          const T step = mean * correct1 / (std::sqrt(square * correct2) + epsilon);
          out[i] = fused(-rate, fused(decay, weights[i], step), weights[i]);
        }
      }
    });
  });
}

template void Kernels<float>::decide(std::span<const double>, const DecideNumbers&,
                                     const UpdateDecision*, UpdateDecision*) const;
template void Kernels<float>::step_sgd(const StepSpans<float>&, const StepNumbers&) const;
template void Kernels<float>::step_momentum(const StepSpans<float>&, const StepNumbers&) const;
template void Kernels<float>::step_adamw(const StepSpans<float>&, const StepNumbers&) const;
template void Kernels<double>::decide(std::span<const double>, const DecideNumbers&,
                                      const UpdateDecision*, UpdateDecision*) const;
template void Kernels<double>::step_sgd(const StepSpans<double>&, const StepNumbers&) const;
template void Kernels<double>::step_momentum(const StepSpans<double>&, const StepNumbers&) const;
template void Kernels<double>::step_adamw(const StepSpans<double>&, const StepNumbers&) const;

}  // namespace tandem::cpu
