#pragma once
// Models from the arguments of Megatron-LM (core/README.md, "Arguments of Megatron-LM").

#include <string>
#include <string_view>

#include "core/model.h"

namespace tandem {

/// Whether a text that is no JSON holds such arguments.
bool is_megatron(std::string_view text);

/// Reads a list of arguments, or a script that holds one. Options that say nothing of the layers
/// are passed over. Throws InputError with every complaint found.
ModelSpec parse_megatron(const std::string& file, std::string_view text);

}  // namespace tandem
