#pragma once
// Refusals that a product of values can't do without.

#include "core/base/error.h"

namespace tandem {

/// Sizes that don't go together, such as more pipelines than devices, or a batch that does not
/// divide.
class ShapeError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace tandem
