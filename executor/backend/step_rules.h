#pragma once
// What an update's norm decides, and what an optimizer's step makes of an element: for the kernels
// of every device, and the serial reference.

#include <cmath>
#include <cstddef>
#include <span>

#include "core/base/check.h"
#include "executor/backend/in_kernels.h"
#include "executor/backend/kernels.h"

namespace tandem {

struct GuardDecision {
  double norm = 0.0;   // before clipping
  double scale = 1.0;  // factor of the gradients
  bool skip = false;
};

/// From the sums of squares of the tensors that decide together, in model order.
TANDEM_IN_KERNELS inline GuardDecision decide(bool clips, double most_norm,
                                              std::span<const double> squares) {
  double sum = 0.0;
  for (const double square : squares) sum += square;
  GuardDecision decision{.norm = std::sqrt(sum)};
  if (const bool finite = sum - sum == 0.0; !finite) {
    decision.skip = true;
  } else if (clips && decision.norm > most_norm) {
    decision.scale = most_norm / decision.norm;
  }
  return decision;
}

/// After `steps` steps. NAdam (Dozat 2016, as torch.optim.NAdam has it) takes the mean as it will
/// be corrected at the next step, and the gradient itself; Π the product of all momenta so far:
/// μ(t+1) / (1 − Π(t+1)) of the mean, (1 − μ(t)) / (1 − Π(t)) of the gradient.
TANDEM_IN_KERNELS inline MomentCorrections moment_corrections(const DecideNumbers& numbers,
                                                              double steps) {
  MomentCorrections made{.correction1 = 1.0 - std::pow(numbers.beta1, steps),
                         .correction2 = 1.0 - std::pow(numbers.beta2, steps)};
  if (!numbers.looks_ahead) return made;
  constexpr double kBase = 0.96;
  const auto momentum = [&numbers](double step) {
    return numbers.beta1 * (1.0 - 0.5 * std::pow(kBase, step * numbers.momentum_decay));
  };
  double product = 1.0;
  // Until more of them change nothing: some 60 at β₁ = 0.99.
  for (double step = 1.0; step <= steps && 1.0 - product != 1.0; ++step) product *= momentum(step);
  const double next = momentum(steps + 1.0);
  made.correction1 = (1.0 - product * next) / next;
  made.slope_weight = (1.0 - momentum(steps)) / (1.0 - product);
  return made;
}

/// As Kernels::decide().
TANDEM_IN_KERNELS inline UpdateDecision decide(const DecideNumbers& numbers,
                                               std::span<const double> squares,
                                               const UpdateDecision* before) {
  const GuardDecision guard = decide(numbers.clips, numbers.most_norm, squares);
  const double steps_so_far = before != nullptr ? before->steps : numbers.steps_before;
  const double steps = steps_so_far + (guard.skip ? 0.0 : 1.0);
  const MomentCorrections moments = moment_corrections(numbers, steps);
  return {.norm = guard.norm,
          .scale = guard.scale,
          .skip = guard.skip ? 1.0 : 0.0,
          .steps = steps,
          .correction1 = moments.correction1,
          .correction2 = moments.correction2,
          .slope_weight = moments.slope_weight};
}

template <class Rule, class T, class W>
void check_step(const StepSpans<T, W>& spans) {
  const std::size_t size = spans.weights.size(), out = spans.weights_out.size();
  const std::size_t given = Rule::kOrthogonal ? spans.change.size() : spans.gradient.size();
  constexpr std::size_t states = Rule::kStates;
  TANDEM_CHECK(given == size && (out == size || out == 0) &&
                   (spans.rounded.size() == size || spans.rounded.empty()),
               given, out, spans.rounded.size(), size);
  TANDEM_CHECK(spans.first.size() == (states > 0 ? size : 0) &&
                   spans.second.size() == (states > 1 ? size : 0) &&
                   (spans.last_step.size() == size || spans.last_step.empty()),
               spans.first.size(), spans.second.size(), spans.last_step.size(), size, states);
  const std::size_t forward = spans.forward_weights.size(), drift = spans.drift.size(),
                    backward = spans.backward_weights.size();
  const bool plain = out == size && !spans.keeps_state && spans.last_step.empty();
  TANDEM_CHECK(forward + backward == 0 || plain, forward, backward, size, out);
  TANDEM_CHECK(drift == 0 ? (forward == size || forward + backward == 0) &&
                                (backward == size || backward == 0)
                          : drift == size && backward == size && forward == 0,
               forward, backward, drift, size);
}

/// Numbers of a step as kernels use them, with what was decided.
template <class T>
struct StepFactors {
  T rate, scale, change_scale, decay, epsilon, keep1, take1, keep2, take2, correct1, correct2,
      slope;
  // Of a step whose gradient is late: times that it and the step before count, and the parts of the
  // decay within it and apart. Numbers, for choices would keep a loop from being vectorised.
  T late_step, last_step, decay_within, decay_apart;
  // Of weights as passes read them: what the step is multiplied by to be ahead, and a correction.
  T forward_ahead, backward_ahead, delay, keep_drift, take_drift;

  TANDEM_IN_KERNELS explicit StepFactors(const StepNumbers& n)
      : rate(static_cast<T>(n.learning_rate)),
        scale(static_cast<T>(n.decision == nullptr ? n.gradient_scale
                                                   : n.gradient_scale * n.decision->scale)),
        change_scale(static_cast<T>(n.change_scale)),
        decay(static_cast<T>(n.weight_decay)),
        epsilon(static_cast<T>(n.epsilon)),
        keep1(static_cast<T>(n.beta1)),
        take1(static_cast<T>(1.0 - n.beta1)),
        keep2(static_cast<T>(n.beta2)),
        take2(static_cast<T>(1.0 - n.beta2)),
        correct1(static_cast<T>(1.0 /
                                (n.decision == nullptr ? n.correction1 : n.decision->correction1))),
        correct2(static_cast<T>(1.0 /
                                (n.decision == nullptr ? n.correction2 : n.decision->correction2))),
        slope(static_cast<T>(n.decision == nullptr ? n.slope_weight : n.decision->slope_weight)),
        late_step(is_first(n) ? T{1} : T{2}),
        last_step(is_first(n) ? T{0} : T{1}),
        decay_within(n.corrects_decay ? T{1} : T{0}),
        decay_apart(n.corrects_decay ? T{0} : T{1}),
        forward_ahead(static_cast<T>(n.learning_rate * n.reading.forward_horizon)),
        backward_ahead(static_cast<T>(n.learning_rate * n.reading.backward_horizon)),
        delay(static_cast<T>(n.reading.delay)),
        keep_drift(static_cast<T>(n.reading.kept)),
        take_drift(static_cast<T>(1.0 - n.reading.kept)) {}

 private:
  TANDEM_IN_KERNELS static bool is_first(const StepNumbers& n) {
    return (n.decision == nullptr ? n.steps : n.decision->steps) == 1.0;
  }
};

/// A weight that a step made by `change`, if it came again: see core/schedule/reading.h.
template <class T>
TANDEM_IN_KERNELS inline T predicted(T ahead, T made, T change) {
  return std::fma(-ahead, change, made);
}

/// What backwards read of a weight that a step has made, corrected: see core/schedule/reading.h.
template <class T>
TANDEM_IN_KERNELS inline T corrected(const StepFactors<T>& by, T before, T made, T& drift) {
  drift = std::fma(by.keep_drift, drift, by.take_drift * (made - before));
  return std::fma(-by.delay, drift, made);
}

/// The weight after a step: a rule's `change` of it, and its own `decay`.
template <class T>
TANDEM_IN_KERNELS inline T stepped(const StepFactors<T>& by, T decay, T weight, T change) {
  return std::fma(-by.rate, std::fma(decay, weight, change), weight);
}

/// The same where the gradient is one update late: takes off this step twice, and gives back the
/// step before, whose place in the state it takes. That step should have used the gradient that has
/// come only now, and the difference of the two makes up for it (arXiv 2606.30634). The first
/// gradient is not late: its step is a plain one.
template <class T>
TANDEM_IN_KERNELS inline T stepped_late(const StepFactors<T>& by, T decay, T weight, T change,
                                        T& last_step) {
  const T step = by.rate * std::fma(by.decay_within * decay, weight, change);
  const T taken = std::fma(by.late_step, step, -by.last_step * last_step);
  last_step = step;
  return std::fma(-by.rate * by.decay_apart * decay, weight, weight) - taken;
}

// A rule makes of a gradient, already scaled, what is taken off the weight but for the learning
// rate; `first` and `second` are its state. One that is orthogonal is given the change of a matrix
// instead, as orthogonalise() has made it.

struct SgdRule {
  static constexpr int kStates = 0;
  static constexpr bool kOrthogonal = false;
  template <class T>
  TANDEM_IN_KERNELS static T change(const StepFactors<T>& /*by*/, T gradient, T& /*first*/,
                                    T& /*second*/) {
    return gradient;
  }
};

struct MomentumRule {
  static constexpr int kStates = 1;
  static constexpr bool kOrthogonal = false;
  template <class T>
  TANDEM_IN_KERNELS static T change(const StepFactors<T>& by, T gradient, T& first, T& /*second*/) {
    first = std::fma(by.keep1, first, by.take1 * gradient);
    return first;
  }
};

/// Steps both moments of Adam; the second's root.
template <class T>
TANDEM_IN_KERNELS inline T step_moments(const StepFactors<T>& by, T gradient, T& first, T& second) {
  first = std::fma(by.keep1, first, by.take1 * gradient);
  second = std::fma(by.keep2, second, by.take2 * gradient * gradient);
  return std::sqrt(second * by.correct2) + by.epsilon;
}

struct AdamwRule {
  static constexpr int kStates = 2;
  static constexpr bool kOrthogonal = false;
  template <class T>
  TANDEM_IN_KERNELS static T change(const StepFactors<T>& by, T gradient, T& first, T& second) {
    const T root = step_moments(by, gradient, first, second);
    return first * by.correct1 / root;
  }
};

struct NadamRule {
  static constexpr int kStates = 2;
  static constexpr bool kOrthogonal = false;
  template <class T>
  TANDEM_IN_KERNELS static T change(const StepFactors<T>& by, T gradient, T& first, T& second) {
    const T root = step_moments(by, gradient, first, second);
    return std::fma(by.slope, gradient, first * by.correct1) / root;
  }
};

struct MuonRule {
  static constexpr int kStates = 0;  // nesterov() has stepped it
  static constexpr bool kOrthogonal = true;
  template <class T>
  TANDEM_IN_KERNELS static T change(const StepFactors<T>& /*by*/, T made, T& /*first*/,
                                    T& /*second*/) {
    return made;
  }
};

/// As NesterovSpans says; the gradient is scaled.
template <class T>
TANDEM_IN_KERNELS inline T nesterov(const StepFactors<T>& by, T gradient, T& momentum) {
  momentum = std::fma(by.keep1, momentum, by.take1 * gradient);
  return std::fma(by.keep1, momentum, by.take1 * gradient);
}

/// What a matrix is divided by whose squares have that sum.
TANDEM_IN_KERNELS inline double norm_divisor(double square) {
  constexpr double kLeast = 1e-7;
  const double norm = std::sqrt(square);
  return norm > kLeast ? norm : kLeast;
}

template <class W>
void check_nesterov(const NesterovSpans<W>& spans) {
  const std::size_t size = spans.gradient.size(), slope = spans.slope.size();
  TANDEM_CHECK(spans.momentum.size() == size && (slope == size || slope == 0),
               spans.momentum.size(), slope, size);
}

/// Calls `use` with the rule of an optimizer.
template <class Use>
void with_rule(OptimizerKind kind, const Use& use) {
  switch (kind) {
    case OptimizerKind::sgd:
      return use(SgdRule{});
    case OptimizerKind::momentum:
      return use(MomentumRule{});
    case OptimizerKind::adamw:
      return use(AdamwRule{});
    case OptimizerKind::nadam:
      return use(NadamRule{});
    case OptimizerKind::muon:
      return use(MuonRule{});
  }
}

}  // namespace tandem
