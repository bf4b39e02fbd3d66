#pragma once
// JsonDocument: a JSON text, // and /* */ comments allowed, as a flat list of values that know
// where they lie. Keeps duplicate keys, and numbers as written, so that a reader can refuse them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json_position.h"

namespace tandem {

/// Bytes of a text: a tandem file has kilobytes.
inline constexpr std::size_t kLargestJson = std::size_t{16} << 20;
/// Objects and arrays in one another.
inline constexpr std::size_t kDeepestJson = 64;

enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

/// A value, in the order of the text: an array is followed by its elements, an object by key,
/// value, key, value, …
struct JsonNode {
  std::uint32_t first = 0, last = 0;  // its bytes in the text
  std::uint32_t next = 0;             // the node behind it and all it holds
  JsonKind kind = JsonKind::null;
};

class JsonDocument {
 public:
  /// Throws InputError with line and column where `text` isn't JSON: syntax, UTF-8, NUL, a byte
  /// order mark, numbers beyond a double, nesting deeper than kDeepestJson, more than `most` bytes.
  /// `file` is for messages. REQUIRES: `most` below 4 GiB.
  JsonDocument(std::string file, std::string text, std::size_t most = kLargestJson);

  const std::string& file() const { return file_; }
  const std::string& text() const { return text_; }
  const JsonNode& operator[](std::size_t node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }

  /// The bytes of a value as they stand in the text: "12", "\"a\\n\"".
  std::string_view source(std::size_t node) const;
  TextRange range(std::size_t node) const { return {nodes_[node].first, nodes_[node].last}; }
  /// Of a string or key: without quotes and escapes.
  std::string string(std::size_t node) const;
  bool is_string(std::size_t node, std::string_view text) const;
  /// The JSON pointer of a value. Of a key: that of its value.
  std::string pointer(std::size_t node) const;
  /// The deepest node on the way that `pointer` describes; `exact` says whether it goes all the
  /// way.
  std::size_t find(std::string_view pointer, bool& exact) const;

 private:
  std::string file_;
  std::string text_;
  std::vector<JsonNode> nodes_;
};

/// At most `most` bytes of `text` and an ellipsis where that cuts it; never half a character.
std::string shorten(std::string_view text, std::size_t most);

/// As much of it as a message bears.
inline std::string shown(std::string_view text) { return shorten(text, 48); }

}  // namespace tandem
