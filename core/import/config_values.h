#pragma once
// Values of others' configurations, where a key that is missing or null means a default.

#include <cstdint>
#include <string_view>

#include "core/text/json_reader.h"

namespace tandem {

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

}  // namespace tandem
