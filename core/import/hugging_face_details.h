#pragma once
// What the layers of a config.json compute at a price that does not depend on it.

#include <string_view>

#include "core/model/model.h"
#include "core/text/json_reader.h"

namespace tandem {

/// Reads the epsilon of norms, the deviation of initial weights, the MLP's function, the window of
/// attention and rotary positions of a family of configurations into model.shape.details. What a
/// file does not say is its class's default. Diagnoses numbers that can't be, and scaling without
/// its numbers.
void read_details(const JsonReader& root, std::string_view family, ModelSpec& model);

}  // namespace tandem
