#pragma once
// Clipping by norm and the guard against gradients that are not finite. Norms are made of one sum
// of squares for each parameter tensor, added in the order of the model, so that they do not depend
// on how the model is cut into stages.

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "executor/backend/step_rules.h"
#include "executor/layers/layer.h"

namespace tandem {

/// Whose norm a gradient is clipped by.
enum class ClipScope : std::uint8_t {
  none,
  global,     // of all gradients of an update: all stages decide alike
  per_stage,  // of the stage's own
};

/// What to do with an update whose gradients are not finite.
enum class NonFinite : std::uint8_t {
  stop,
  skip,  // all stages keep their weights and their optimizer's state, and go on
};

struct GradientGuard {
  ClipScope clip = ClipScope::none;
  double most_norm = 1.0;  // gradients of a larger norm are scaled to it
  NonFinite on_nan = NonFinite::stop;

  /// The stages must agree before any of them may update.
  bool is_global() const { return clip == ClipScope::global || on_nan == NonFinite::skip; }
};

inline GuardDecision decide(const GradientGuard& guard, std::span<const double> squares) {
  return decide(guard.clip != ClipScope::none, guard.most_norm, squares);
}

/// The first tensor whose gradient is not finite; a number too large to square counts as such.
inline std::optional<std::size_t> first_non_finite(std::span<const double> squares) {
  for (std::size_t i = 0; i < squares.size(); ++i) {
    if (!std::isfinite(squares[i])) return i;
  }
  return std::nullopt;
}

/// The sum of squares of each tensor's gradient, times factor². A tied head's table counts as
/// nothing, for it is the embedding's. REQUIRES: tied gradients are summed; offsets are set.
template <Kernels K>
void sum_squares(K& kernels, std::span<const Tensor> tensors, bool tied, double factor,
                 std::span<const typename K::Wide> gradients, std::span<double> squares) {
  std::vector<ElementRange> ranges;
  for (const Tensor& tensor : tensors) {
    const bool counts = !tied || tensor.name != kHeadTable;
    ranges.push_back({tensor.offset, tensor.offset + (counts ? tensor.size() : 0)});
  }
  kernels.sums_of_squares(gradients, std::span<const ElementRange>(ranges), factor * factor,
                          squares);
}

}  // namespace tandem
