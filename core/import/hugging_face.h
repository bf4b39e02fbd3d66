#pragma once
// Models from the config.json of Hugging Face Transformers (FORMATS.md, "config.json").

#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/text/json_reader.h"

namespace tandem {

/// Whether an object is such a file: it names a model type, or classes of that library.
bool is_hugging_face(const JsonReader& root);

/// What a file does not say is its class's default. Complains of families that have no analytic
/// costs, with the reason and, where they can be counted, their parameters. Adds to `notes` what
/// was left out or guessed.
ModelSpec read_hugging_face(const JsonReader& root, std::vector<std::string>& notes);

}  // namespace tandem
