#pragma once
// Models from the config.json of Hugging Face Transformers (FORMATS.md, "config.json").

#include <string>
#include <string_view>

#include "core/import/models.h"

namespace tandem {

/// Whether a text is such a file: an object that names a model type, or classes of that library.
bool is_hugging_face(std::string_view text);

/// What a file does not say is its class's default. Diagnoses families that have no analytic
/// costs, with the reason and, where they can be counted, their parameters. Notes say what was left
/// out or guessed. Throws InputError with every diagnostic found.
NotedModel parse_hugging_face(const std::string& file, std::string text);

}  // namespace tandem
