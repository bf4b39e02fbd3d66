#pragma once
// Models from the config.json of Hugging Face Transformers (FORMATS.md, "config.json"), and the
// parameters of those that have no layers here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/import/models.h"
#include "core/text/json_reader.h"

namespace tandem {

/// Whether a text is such a file: an object that names a model type, or classes of that library.
bool is_hugging_face(std::string_view text);

/// What a file does not say is its class's default. Diagnoses families that have no analytic
/// costs, with the reason and, where they can be counted, their parameters. Notes say what was left
/// out or guessed. Throws InputError with every diagnostic found.
NotedModel parse_hugging_face(const std::string& file, std::string text);

// A key that is missing or null means a default.

inline bool is_given(const JsonReader& value) {
  return !value.absent() && value.kind() != JsonKind::null;
}

/// From 1 to `most`.
inline std::int32_t count_or(const JsonReader& root, std::string_view key, std::int32_t otherwise,
                             std::int32_t most) {
  const JsonReader value = root.optional(key);
  return is_given(value) ? value.integer<std::int32_t>(1, most) : otherwise;
}

inline bool flag_or(const JsonReader& root, std::string_view key, bool otherwise) {
  const JsonReader value = root.optional(key);
  return is_given(value) ? value.boolean() : otherwise;
}

/// Of a whole model, and of what computes for one token. Exact up to 2^53.
struct ParameterCount {
  double all = 0, active = 0;
};

/// What a file does not say is its class's default. Nothing of a type that can't be counted.
std::optional<ParameterCount> counted_parameters(const JsonReader& root, std::string_view type);

}  // namespace tandem
