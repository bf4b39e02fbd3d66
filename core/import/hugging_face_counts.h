#pragma once
// Parameters of those models of Hugging Face Transformers that have no layers here.

#include <optional>
#include <string_view>

#include "core/text/json_reader.h"

namespace tandem {

/// Of a whole model, and of what computes for one token. Exact up to 2^53.
struct ParameterCount {
  double all = 0, active = 0;
};

/// What a file does not say is its class's default. Nothing of a type that can't be counted.
std::optional<ParameterCount> counted_parameters(const JsonReader& root, std::string_view type);

}  // namespace tandem
