#pragma once
// Which of the models of Hugging Face's library one of ours is, and what its config.json says.

#include <cstdint>
#include <string>

#include "core/model/model.h"

namespace tandem {

enum class LibraryModel : std::uint8_t { none, gpt2, llama, qwen2, qwen3 };

/// By the layers alone; none: the library has no model of such layers.
LibraryModel library_model(const ModelSpec& model);

/// The config.json with which the library opens the weights; empty: it has no such model.
std::string library_config(const ModelSpec& model);

}  // namespace tandem
