// What an update does: the decision on its gradients, and the optimizers' steps.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "executor/backend/step_rules.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {

template <class T>
void Kernels<T>::decide(std::span<const double> squares, const DecideNumbers& numbers,
                        const UpdateDecision* before, UpdateDecision* decision) const {
  *decision = tandem::decide(numbers, squares, before);
}

namespace {

/// Whether it was decided to skip the step: then the next version is as this one.
template <class T>
bool keeps_weights(const StepSpans<T>& spans, const StepNumbers& numbers) {
  if (numbers.decision == nullptr || numbers.decision->skip == 0.0) return false;
  if (!spans.weights_out.empty() && spans.weights_out.data() != spans.weights.data())
    std::copy(spans.weights.begin(), spans.weights.end(), spans.weights_out.begin());
  return true;
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

template <class Rule, class T>
void step_by(const StepSpans<T>& spans, const StepNumbers& numbers) {
  check_step(spans, Rule::kStates);
  if (keeps_weights(spans, numbers)) return;
  const StepFactors<T> factors(numbers);
  const T *weights = spans.weights.data(), *gradients = spans.gradient.data();
  T *first = spans.first.data(), *second = spans.second.data(), *out = spans.weights_out.data();
  with_results(spans, [=, size = spans.weights.size()]<bool kWeights, bool kState>(
                          std::bool_constant<kWeights>, std::bool_constant<kState>) {
    on_widest_vectors([=]() TANDEM_LOOPS {
      const StepFactors<T> by = factors;  // here, for what is written may be anywhere else
      for (std::size_t i = 0; i < size; ++i) {
        T mean{}, square{};
        if constexpr (Rule::kStates > 0) mean = first[i];
        if constexpr (Rule::kStates > 1) square = second[i];
        const T change = Rule::change(by, by.scale * gradients[i], mean, square);
        if constexpr (kState && Rule::kStates > 0) first[i] = mean;
        if constexpr (kState && Rule::kStates > 1) second[i] = square;
        if constexpr (kWeights)
          out[i] = fused(-by.rate, fused(by.decay, weights[i], change), weights[i]);
      }
    });
  });
}

}  // namespace

template <class T>
void Kernels<T>::step(OptimizerKind kind, const StepSpans<T>& spans,
                      const StepNumbers& numbers) const {
  with_rule(kind, [&](auto rule) { step_by<decltype(rule)>(spans, numbers); });
}

template void Kernels<float>::decide(std::span<const double>, const DecideNumbers&,
                                     const UpdateDecision*, UpdateDecision*) const;
template void Kernels<float>::step(OptimizerKind, const StepSpans<float>&,
                                   const StepNumbers&) const;
template void Kernels<double>::decide(std::span<const double>, const DecideNumbers&,
                                      const UpdateDecision*, UpdateDecision*) const;
template void Kernels<double>::step(OptimizerKind, const StepSpans<double>&,
                                    const StepNumbers&) const;

}  // namespace tandem::cpu
