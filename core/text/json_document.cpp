#include "core/text/json_document.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/ascii.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

namespace tandem {
namespace {

constexpr std::size_t kShownToken = 40;

[[noreturn]] void fail(const std::string& file, std::string_view text, TextRange range,
                       std::string message, std::string hint = {}) {
  Diagnostic diagnostic{std::move(message), place_of(text, range), std::move(hint)};
  diagnostic.place.file = file;
  throw InputError(std::move(diagnostic));
}

/// Behind white space and comments. REQUIRES: text without NUL.
std::size_t skip_blank(std::string_view text, std::size_t position) {
  while (position < text.size()) {
    const std::string_view rest = text.substr(position);
    if (rest.starts_with("//")) {
      position = std::min(text.find_first_of("\r\n", position), text.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text.find("*/", position + 2);
      position = end == std::string_view::npos ? text.size() : end + 2;
    } else if (std::string_view(" \t\r\n").find(rest.front()) != std::string_view::npos) {
      ++position;
    } else {
      break;
    }
  }
  return position;
}

std::size_t string_end(std::string_view text, std::size_t first) {
  std::size_t position = first + 1;
  while (position < text.size() && text[position] != '"')
    position += text[position] == '\\' ? 2 : 1;
  return std::min(position + 1, text.size());
}

bool is_word(char c) {
  const char small = lower_case(c);
  return is_digit(c) || (small >= 'a' && small <= 'z') || c == '_' || c == '-' || c == '+' ||
         c == '.';
}

std::size_t digits_end(std::string_view text, std::size_t position) {
  while (position < text.size() && is_digit(text[position])) ++position;
  return position;
}

/// Behind the number or literal that the parser took: in "1x" only the 1.
std::size_t scalar_end(std::string_view text, std::size_t first) {
  const auto is_at = [text](std::size_t position, std::string_view characters) {
    return position < text.size() && characters.find(text[position]) != std::string_view::npos;
  };
  if (is_at(first, "tn")) return std::min(first + 4, text.size());
  if (is_at(first, "f")) return std::min(first + 5, text.size());
  std::size_t position = is_at(first, "-") ? first + 1 : first;
  position = is_at(position, "0") ? position + 1 : digits_end(text, position);
  if (is_at(position, ".")) position = digits_end(text, position + 1);
  if (is_at(position, "eE"))
    position = digits_end(text, is_at(position + 1, "+-") ? position + 2 : position + 1);
  return position;
}

/// Behind a malformed token or stray word; at least one byte.
std::size_t word_end(std::string_view text, std::size_t first) {
  std::size_t position = first;
  while (position < text.size() && is_word(text[position])) ++position;
  return std::max(position, std::min(first + 1, text.size()));
}

/// The part of the parser's message between `before` and the text that it quotes.
std::string reason_in(const std::string& message, std::string_view before) {
  const std::size_t at = message.find(before);
  if (at == std::string::npos) return {};
  const std::size_t first = at + before.size();
  return message.substr(first, message.find("; last read", first) - first);
}

/// Listens to the parser, which says what comes; keeps pace in the text, to know where.
class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Builder(const std::string& file, std::string_view text, std::vector<JsonNode>& nodes)
      : file_(file), text_(text), nodes_(nodes) {}

  bool null() { return scalar(JsonKind::null); }
  bool boolean(bool) { return scalar(JsonKind::boolean); }
  bool number_integer(number_integer_t) { return scalar(JsonKind::number); }
  bool number_unsigned(number_unsigned_t) { return scalar(JsonKind::number); }
  bool number_float(number_float_t, const string_t&) { return scalar(JsonKind::number); }
  bool string(string_t&) { return quoted(false); }
  bool key(string_t&) { return quoted(true); }
  bool binary(binary_t&) { return true; }
  bool start_object(std::size_t) { return start(JsonKind::object); }
  bool start_array(std::size_t) { return start(JsonKind::array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }

  bool parse_error(std::size_t read, const std::string&, const nlohmann::detail::exception& error) {
    const Expected expected = this->expected();
    const std::size_t first = expected.position;
    const char c = first < text_.size() ? text_[first] : ' ';
    const TextRange word{first, word_end(text_, first)};
    const TextRange so_far{first, std::clamp(read, first + 1, std::max(first + 1, text_.size()))};
    if (const std::string why = reason_in(error.what(), "invalid string: ");
        expected.token && c == '"' && !why.empty()) {
      fail(file_, text_, so_far, "malformed string: " + why);
    }
    if (expected.token && (c == '-' || (c >= '0' && c <= '9'))) {
      const std::string why = reason_in(error.what(), "invalid number; ");
      if (!why.empty()) fail(file_, text_, word, "malformed number: " + why);
      const std::string_view number = text_.substr(first, word.last - first);
      fail(file_, text_, word,
           "expected a number of at most 1.8e308, found " + shorten(number, kShownToken));
    }
    if (c == '/')
      fail(file_, text_, {first, first + 1}, "malformed comment", "// to the line's end");
    // Unclosed comments end the text for skip_blank(), not for the parser.
    const bool comment =
        first >= text_.size() && text_.find("/*", position_) != std::string_view::npos;
    const std::string hint = comment ? "a comment is not closed" : expected.hint;
    fail(file_, text_, c == '"' ? TextRange{first, string_end(text_, first)} : word,
         fmt::format("expected {}, found {}", expected.what, found(first)),
         c == '\'' ? "strings take double quotes" : hint);
  }

 private:
  struct Expected {
    std::size_t position = 0;
    std::string what;
    bool token = false;  // a value or key may start there
    std::string hint;
  };

  std::size_t token_start() const {
    std::size_t position = skip_blank(text_, position_);
    while (position < text_.size() && (text_[position] == ',' || text_[position] == ':'))
      position = skip_blank(text_, position + 1);
    return position;
  }

  bool add(JsonKind kind, std::size_t first, std::size_t last, bool is_key) {
    const auto next = static_cast<std::uint32_t>(nodes_.size() + 1);
    nodes_.push_back(
        {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), next, kind});
    position_ = last;
    after_key_ = is_key;
    return true;
  }

  bool scalar(JsonKind kind) {
    const std::size_t first = token_start();
    return add(kind, first, scalar_end(text_, first), false);
  }

  bool quoted(bool is_key) {
    const std::size_t first = token_start();
    return add(JsonKind::string, first, string_end(text_, first), is_key);
  }

  bool start(JsonKind kind) {
    const std::size_t first = token_start();
    if (open_.size() >= kDeepestJson) {
      fail(file_, text_, {first, first + 1},
           fmt::format("expected objects and arrays nested at most {} deep, found more",
                       kDeepestJson));
    }
    open_.push_back(nodes_.size());
    return add(kind, first, first + 1, false);
  }

  bool end() {
    position_ = std::min(skip_blank(text_, position_) + 1, text_.size());
    JsonNode& node = nodes_[open_.back()];
    node.last = static_cast<std::uint32_t>(position_);
    node.next = static_cast<std::uint32_t>(nodes_.size());
    open_.pop_back();
    after_key_ = false;
    return true;
  }

  Expected expected() const {
    const std::size_t here = skip_blank(text_, position_);
    const auto at = [this, here](char c) { return here < text_.size() && text_[here] == c; };
    const std::size_t beyond = here < text_.size() ? skip_blank(text_, here + 1) : here;
    if (nodes_.empty()) return {here, "an object", true, {}};
    if (open_.empty()) return {here, "the end of the file", false, {}};
    if (after_key_) {
      if (at(':')) return {beyond, "a value", true, {}};
      return {here, "':' after the key", false, {}};
    }
    const bool object = nodes_[open_.back()].kind == JsonKind::object;
    const std::string item = object ? "a key in double quotes" : "a value";
    const std::string close = object ? "'}'" : "']'";
    if (open_.back() + 1 == nodes_.size()) return {here, item + " or " + close, true, {}};
    if (!at(',')) return {here, "',' or " + close, false, {}};
    const bool trailing = beyond < text_.size() && (text_[beyond] == '}' || text_[beyond] == ']');
    return {beyond, item, true, trailing ? "no comma after the last one" : ""};
  }

  std::string found(std::size_t position) const {
    if (position >= text_.size()) return "the end of the file";
    if (text_[position] == '"') return "a string";
    const std::string_view token = text_.substr(position, word_end(text_, position) - position);
    if (static_cast<unsigned char>(token.front()) >= 0x80U) return "a character outside a string";
    if (static_cast<unsigned char>(token.front()) < 0x20U) return "a control character";
    return fmt::format("'{}'", shorten(token, kShownToken));
  }

  const std::string& file_;
  std::string_view text_;
  std::vector<JsonNode>& nodes_;
  std::vector<std::size_t> open_;
  std::size_t position_ = 0;
  bool after_key_ = false;
};

/// What the parser would let pass, or not say clearly.
void check_encoding(const std::string& file, std::string_view text, std::size_t most) {
  if (text.size() > most) {
    throw InputError(Diagnostic{
        .message = "larger than " + print_bytes(static_cast<Bytes>(most)) + ", the limit here",
        .place = {.file = file}});
  }
  if (text.starts_with("\xEF\xBB\xBF") || text.starts_with("\xFE\xFF") ||
      text.starts_with("\xFF\xFE")) {
    fail(file, text, {}, "starts with a byte order mark", "save it as UTF-8 without one");
  }
  const std::size_t invalid = first_invalid_utf8(text);
  if (invalid < text.size()) {
    const unsigned byte = static_cast<unsigned char>(text[invalid]);
    fail(file, text, {invalid, invalid + 1},
         fmt::format("expected UTF-8, found the byte 0x{:02X}", byte));
  }
  const std::size_t nul = text.find('\0');
  if (nul < text.size()) fail(file, text, {nul, nul + 1}, "expected text, found a NUL byte");
}

std::string escape_pointer(const std::string& key) {
  constexpr std::size_t kShownKey = 64;
  std::string text;
  for (const char c : shorten(key, kShownKey)) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += static_cast<unsigned char>(c) < 0x20U || c == 0x7F ? '?' : c;
    }
  }
  return text;
}

std::string unescape_pointer(std::string_view segment) {
  std::string text;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    const bool escape = segment[i] == '~' && i + 1 < segment.size();
    text += escape ? (segment[i + 1] == '1' ? '/' : '~') : segment[i];
    if (escape) ++i;
  }
  return text;
}

}  // namespace

std::string shorten(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

JsonDocument::JsonDocument(std::string file, std::string text, std::size_t most)
    : file_(std::move(file)), text_(std::move(text)) {
  TANDEM_CHECK(most < std::numeric_limits<std::uint32_t>::max(), most);
  check_encoding(file_, text_, most);
  Builder builder(file_, text_, nodes_);
  constexpr bool kStrict = true, kComments = true;
  const bool parsed = nlohmann::json::sax_parse(
      text_, &builder, nlohmann::detail::input_format_t::json, kStrict, kComments);
  TANDEM_CHECK(parsed && !nodes_.empty());
}

std::string_view JsonDocument::source(std::size_t node) const {
  const JsonNode& value = nodes_[node];
  return std::string_view(text_).substr(value.first, value.last - value.first);
}

std::string JsonDocument::string(std::size_t node) const {
  const std::string_view quoted = source(node);
  if (quoted.find('\\') == std::string_view::npos)
    return std::string(quoted.substr(1, quoted.size() - 2));
  return nlohmann::json::parse(quoted).get<std::string>();
}

bool JsonDocument::is_string(std::size_t node, std::string_view text) const {
  const std::string_view quoted = source(node);
  if (quoted.find('\\') == std::string_view::npos)
    return quoted.substr(1, quoted.size() - 2) == text;
  return string(node) == text;
}

std::string JsonDocument::pointer(std::size_t node) const {
  std::string path;
  std::size_t holder = 0;
  while (holder != node) {
    const bool object = nodes_[holder].kind == JsonKind::object;
    std::size_t child = holder + 1, position = 0;
    const auto value_of = [object](std::size_t item) { return object ? item + 1 : item; };
    while (node >= nodes_[value_of(child)].next) {
      child = nodes_[value_of(child)].next;
      ++position;
    }
    path += "/" + (object ? escape_pointer(string(child)) : std::to_string(position));
    if (node == child) break;
    holder = value_of(child);
  }
  return path;
}

std::size_t JsonDocument::find(std::string_view pointer, bool& exact) const {
  std::size_t holder = 0;
  while (!pointer.empty()) {
    const std::size_t slash = std::min(pointer.find('/', 1), pointer.size());
    const std::string segment = unescape_pointer(pointer.substr(1, slash - 1));
    pointer.remove_prefix(slash);
    const bool object = nodes_[holder].kind == JsonKind::object;
    const std::size_t end = nodes_[holder].next;
    std::size_t child = holder + 1, position = 0;
    const auto matches = [&] {
      return object ? is_string(child, segment) : std::to_string(position) == segment;
    };
    while (child < end && !matches()) {
      child = nodes_[object ? child + 1 : child].next;
      ++position;
    }
    exact = child < end;
    if (!exact) return holder;
    holder = object ? child + 1 : child;
  }
  exact = true;
  return holder;
}

}  // namespace tandem
