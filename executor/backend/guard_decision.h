#pragma once
// What an update's norm decides: the kernels' decide() and the serial reference compute it alike.

#include <cmath>
#include <span>

namespace tandem {

struct GuardDecision {
  double norm = 0.0;   // before clipping
  double scale = 1.0;  // factor of the gradients
  bool skip = false;
};

/// From the sums of squares of the tensors that decide together, in model order.
inline GuardDecision decide(bool clips, double most_norm, std::span<const double> squares) {
  double sum = 0.0;
  for (const double square : squares) sum += square;
  GuardDecision decision{.norm = std::sqrt(sum)};
  if (!std::isfinite(sum)) {
    decision.skip = true;
  } else if (clips && decision.norm > most_norm) {
    decision.scale = most_norm / decision.norm;
  }
  return decision;
}

}  // namespace tandem
