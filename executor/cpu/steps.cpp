// Optimizers' steps: a rule (step_rules.h) over stretches of elements, in vectors.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "executor/backend/step_rules.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {
namespace {

/// Whether it was decided to skip the step: then the next version is as this one.
template <class T>
bool keeps_weights(const StepSpans<T>& spans, const StepNumbers& numbers) {
  if (numbers.decision == nullptr || numbers.decision->skip == 0.0) return false;
  const auto keep_in = [&spans](std::span<T> made) {
    if (!made.empty() && made.data() != spans.weights.data())
      std::copy(spans.weights.begin(), spans.weights.end(), made.begin());
  };
  keep_in(spans.weights_out);
  if (!spans.drift.empty()) return true;
  keep_in(spans.forward_weights);
  keep_in(spans.backward_weights);
  return true;
}

/// The planes that passes read, which a step makes beside the weights.
enum class Planes : std::uint8_t { none, predicted_forward, both_predicted, corrected_backward };

template <Planes kPlanes>
using PlanesConstant = std::integral_constant<Planes, kPlanes>;

/// Calls `loops` with what a step writes, whether it makes up for delay, and what passes read, as
/// constants, so that no loop asks.
template <class T, class Loops>
void with_results(const StepSpans<T>& spans, const Loops& loops) {
  constexpr std::bool_constant<true> kYes;
  constexpr std::bool_constant<false> kNo;
  constexpr PlanesConstant<Planes::none> kNone;
  const auto with_weights_and_state = [&](auto weights, auto state) {
    if (spans.last_step.empty())
      loops(weights, state, kNo, kNone);
    else
      loops(weights, state, kYes, kNone);
  };
  if (!spans.drift.empty()) {
    loops(kYes, kYes, kNo, PlanesConstant<Planes::corrected_backward>{});
  } else if (!spans.backward_weights.empty()) {
    loops(kYes, kYes, kNo, PlanesConstant<Planes::both_predicted>{});
  } else if (!spans.forward_weights.empty()) {
    loops(kYes, kYes, kNo, PlanesConstant<Planes::predicted_forward>{});
  } else if (spans.weights_out.empty()) {
    with_weights_and_state(kNo, kYes);
  } else if (spans.keeps_state) {
    with_weights_and_state(kYes, kNo);
  } else {
    with_weights_and_state(kYes, kYes);
  }
}

/// Steps a stretch, all or none of which decays.
template <class Rule, class T>
void step_stretch(const StepSpans<T>& spans, const StepFactors<T>& factors) {
  const T *weights = spans.weights.data(),
          *gradients = Rule::kOrthogonal ? spans.change.data() : spans.gradient.data();
  T *first = spans.first.data(), *second = spans.second.data(), *out = spans.weights_out.data();
  T *last_step = spans.last_step.data(), *drift = spans.drift.data(),
    *ahead = spans.forward_weights.data(), *back = spans.backward_weights.data();
  with_results(
      spans,
      [=, size = spans.weights.size()]<bool kWeights, bool kState, bool kLate, Planes kPlanes>(
          std::bool_constant<kWeights>, std::bool_constant<kState>, std::bool_constant<kLate>,
          PlanesConstant<kPlanes>) {
        on_widest_vectors([=]() TANDEM_LOOPS {
          const StepFactors<T> by = factors;  // here, for what is written may be anywhere else
          TANDEM_INDEPENDENT_TURNS
          for (std::size_t i = 0; i < size; ++i) {
            T mean{}, square{};
            if constexpr (Rule::kStates > 0) mean = first[i];
            if constexpr (Rule::kStates > 1) square = second[i];
            const T scale = Rule::kOrthogonal ? by.change_scale : by.scale;
            const T change = Rule::change(by, scale * gradients[i], mean, square);
            if constexpr (kState && Rule::kStates > 0) first[i] = mean;
            if constexpr (kState && Rule::kStates > 1) second[i] = square;
            if constexpr (kLate) {
              T last = last_step[i];
              const T made = stepped_late(by, by.decay, weights[i], change, last);
              if constexpr (kState) last_step[i] = last;
              if constexpr (kWeights) out[i] = made;
            } else if constexpr (kWeights) {
              const T before = weights[i], made = stepped(by, by.decay, before, change);
              out[i] = made;
              if constexpr (kPlanes == Planes::corrected_backward)
                back[i] = corrected(by, before, made, drift[i]);
              if constexpr (kPlanes == Planes::both_predicted)
                back[i] = predicted(by.backward_ahead, made, change);
              if constexpr (kPlanes == Planes::predicted_forward ||
                            kPlanes == Planes::both_predicted)
                ahead[i] = predicted(by.forward_ahead, made, change);
            }
          }
        });
      });
}

template <class T>
StepSpans<T> stretch_of(const StepSpans<T>& spans, const ElementRange& range) {
  const auto part = [&](auto span) {
    return span.empty() ? span
                        : span.subspan(static_cast<std::size_t>(range.first),
                                       static_cast<std::size_t>(range.size()));
  };
  return {.weights = part(spans.weights),
          .gradient = part(spans.gradient),
          .first = part(spans.first),
          .second = part(spans.second),
          .weights_out = part(spans.weights_out),
          .keeps_state = spans.keeps_state,
          .forward_weights = part(spans.forward_weights),
          .backward_weights = part(spans.backward_weights),
          .drift = part(spans.drift),
          .last_step = part(spans.last_step),
          .change = part(spans.change)};
}

template <class Rule, class T>
void step_by(const StepSpans<T>& spans, const StepNumbers& numbers) {
  check_step<Rule>(spans);
  if (keeps_weights(spans, numbers)) return;
  const StepFactors<T> decaying(numbers);
  StepFactors<T> staying = decaying;
  staying.decay = T{};
  std::int64_t at = 0;
  for (const ElementRange& range : spans.decayed) {
    if (at < range.first) step_stretch<Rule>(stretch_of(spans, {at, range.first}), staying);
    if (range.size() > 0) step_stretch<Rule>(stretch_of(spans, range), decaying);
    at = range.last;
  }
  if (at < std::ssize(spans.weights))
    step_stretch<Rule>(stretch_of(spans, {at, std::ssize(spans.weights)}), staying);
}

}  // namespace

template <class T>
void Kernels<T>::step(OptimizerKind kind, const StepSpans<T>& spans,
                      const StepNumbers& numbers) const {
  with_rule(kind, [&](auto rule) { step_by<decltype(rule)>(spans, numbers); });
}

template <class T>
void Kernels<T>::nesterov(const NesterovSpans<T>& spans, const StepNumbers& numbers) const {
  check_nesterov(spans);
  const bool skips = numbers.decision != nullptr && numbers.decision->skip != 0.0;
  const T* gradient = spans.gradient.data();
  T *momentum = spans.momentum.data(), *slope = spans.slope.data();
  const StepFactors<T> factors(numbers);
  const auto run = [=, size = spans.gradient.size()]<bool kKeeps, bool kSlope>(
                       std::bool_constant<kKeeps>, std::bool_constant<kSlope>) {
    on_widest_vectors([=]() TANDEM_LOOPS {
      const StepFactors<T> by = factors;
      TANDEM_INDEPENDENT_TURNS
      for (std::size_t i = 0; i < size; ++i) {
        T mean = momentum[i];
        const T made = tandem::nesterov(by, by.scale * gradient[i], mean);
        if constexpr (!kKeeps) momentum[i] = mean;
        if constexpr (kSlope) slope[i] = made;
      }
    });
  };
  constexpr std::bool_constant<true> kYes;
  constexpr std::bool_constant<false> kNo;
  const bool keeps = skips || spans.keeps_state;
  if (slope == nullptr) {
    if (!keeps) run(kNo, kNo);
  } else if (keeps) {
    run(kYes, kYes);
  } else {
    run(kNo, kYes);
  }
}

template <class T>
void Kernels<T>::divide_by_norm(In x, std::span<const double> square, Out y) const {
  TANDEM_CHECK(x.size() == y.size() && square.size() == 1, x.size(), y.size(), square.size());
  const T* from = x.data();
  T* to = y.data();
  on_widest_vectors([=, size = y.size(), divisor = static_cast<T>(norm_divisor(square[0]))]()
                        TANDEM_LOOPS {
                          for (std::size_t i = 0; i < size; ++i) to[i] = from[i] / divisor;
                        });
}

template void Kernels<float>::step(OptimizerKind, const StepSpans<float>&,
                                   const StepNumbers&) const;
template void Kernels<double>::step(OptimizerKind, const StepSpans<double>&,
                                    const StepNumbers&) const;

template void Kernels<float>::nesterov(const NesterovSpans<float>&, const StepNumbers&) const;
template void Kernels<double>::nesterov(const NesterovSpans<double>&, const StepNumbers&) const;
template void Kernels<float>::divide_by_norm(In, std::span<const double>, Out) const;
template void Kernels<double>::divide_by_norm(In, std::span<const double>, Out) const;

}  // namespace tandem::cpu
