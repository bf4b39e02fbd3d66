#include "core/text/json_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/check.h"

namespace tandem {
namespace {

constexpr std::size_t kListedDiagnostics = 100;
constexpr std::size_t kShownValue = 48;
constexpr std::string_view kForeignPrefix = "x-";
constexpr Bytes kMostBytes = Bytes{1} << 60;

std::string integers_between(std::int64_t low, std::int64_t high) {
  if (high == std::numeric_limits<std::int64_t>::max()) return fmt::format("an integer >= {}", low);
  return fmt::format("an integer from {} to {}", low, high);
}

/// A value in an error message: itself where it is short.
std::string show(const JsonDocument& document, std::size_t node) {
  const std::string_view source = document.source(node);
  if (document[node].kind == JsonKind::object) return "an object";
  if (document[node].kind == JsonKind::array) {
    const bool short_line =
        source.size() <= kShownValue && source.find_first_of("\r\n\t") == std::string_view::npos;
    return short_line ? std::string(source) : "an array";
  }
  return shorten(source, kShownValue);
}

bool is_integer_text(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return std::ranges::all_of(text, is_digit);
}

}  // namespace

JsonFile::JsonFile(std::string file, std::string text, std::size_t most)
    : document_(std::move(file), std::move(text), most) {}

bool JsonFile::full() const { return diagnostics_.size() >= kListedDiagnostics; }

JsonReader JsonFile::root() { return {*this, 0}; }

void JsonFile::diagnose(std::size_t node, std::string message, std::string hint) {
  if (full()) {
    ++unlisted_;
    return;
  }
  diagnostics_.push_back({node, std::move(message), std::move(hint)});
}

void JsonFile::finish() const {
  if (diagnostics_.empty()) return;
  // By place, and of one place in the order found.
  std::vector<Pending> in_order = diagnostics_;
  std::ranges::stable_sort(in_order, {}, &Pending::node);
  std::vector<Diagnostic> diagnostics;
  for (const Pending& pending : in_order) {
    SourcePlace place = place_of(document_.text(), document_.range(pending.node));
    place.file = document_.file();
    place.pointer = document_.pointer(pending.node);
    diagnostics.push_back({pending.message, std::move(place), pending.hint});
  }
  if (unlisted_ > 0) {
    diagnostics.push_back(
        {.message = fmt::format("{} more errors", unlisted_), .place = {.file = document_.file()}});
  }
  throw InputError(std::move(diagnostics));
}

JsonKind JsonReader::kind() const {
  return absent() ? JsonKind::null : file_->document()[node_].kind;
}

void JsonReader::diagnose(std::string message, std::string hint) const {
  if (!absent()) file_->diagnose(node_, std::move(message), std::move(hint));
}

void JsonReader::expected(const std::string& what, std::string hint) const {
  if (absent()) return;
  diagnose(fmt::format("expected {}, found {}", what, show(file_->document(), node_)),
           std::move(hint));
}

bool JsonReader::object(std::span<const std::string_view> keys) const {
  const std::vector<std::string> known(keys.begin(), keys.end());
  return object_of(&known);
}

bool JsonReader::any_object() const { return object_of(nullptr); }

bool JsonReader::object_of(const std::vector<std::string>* known) const {
  if (absent()) return false;
  if (kind() != JsonKind::object) {
    expected("an object");
    return false;
  }
  check_keys(known);
  return true;
}

void JsonReader::check_keys(const std::vector<std::string>* known) const {
  const JsonDocument& document = file_->document();
  std::vector<std::pair<std::string, std::size_t>> found;
  for (const auto& [key, value] : members()) found.emplace_back(key, value.node_ - 1);
  std::sort(found.begin(), found.end());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [key, node] = found[i];
    const bool duplicate = i > 0 && key == found[i - 1].first;
    const bool unknown = known != nullptr && !duplicate && !key.starts_with(kForeignPrefix) &&
                         std::find(known->begin(), known->end(), key) == known->end();
    if (!duplicate && !unknown) continue;
    std::string message;
    if (file_->full()) {
      // Neither a line nor a suggestion is sought for what will only be counted.
    } else if (duplicate) {
      message = fmt::format("duplicate key {}; the one before is on line {}",
                            shorten(document.source(node), kShownValue),
                            line_of(document.text(), document[found[i - 1].second].first));
    } else {
      message = fmt::format("unknown key {}{}", shorten(document.source(node), kShownValue),
                            did_you_mean(key, *known));
    }
    file_->diagnose(node, std::move(message));
  }
}

JsonReader JsonReader::optional(std::string_view key) const {
  if (absent() || kind() != JsonKind::object) return {};
  const JsonDocument& document = file_->document();
  const std::size_t end = document[node_].next;
  for (std::size_t node = node_ + 1; node < end; node = document[node + 1].next) {
    if (document.is_string(node, key)) return {*file_, node + 1};
  }
  return {};
}

JsonReader JsonReader::operator[](std::string_view key) const {
  const JsonReader value = optional(key);
  if (value.absent()) diagnose(fmt::format("missing key \"{}\"", key));
  return value;
}

std::vector<JsonReader> JsonReader::array() const {
  std::vector<JsonReader> elements;
  if (absent()) return elements;
  if (kind() != JsonKind::array) {
    expected("an array");
    return elements;
  }
  const JsonDocument& document = file_->document();
  for (std::size_t node = node_ + 1; node < document[node_].next; node = document[node].next)
    elements.emplace_back(*file_, node);
  return elements;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  std::vector<std::pair<std::string, JsonReader>> members;
  if (kind() != JsonKind::object) return members;
  const JsonDocument& document = file_->document();
  const std::size_t end = document[node_].next;
  for (std::size_t node = node_ + 1; node < end; node = document[node + 1].next)
    members.emplace_back(document.string(node), JsonReader(*file_, node + 1));
  return members;
}

std::int64_t JsonReader::int64(std::int64_t low, std::int64_t high) const {
  TANDEM_CHECK(low <= high, low, high);
  if (absent()) return low;
  const std::string_view text = file_->document().source(node_);
  if (kind() == JsonKind::number && is_integer_text(text)) {
    const auto value = number_in<std::int64_t>(text);
    if (value && *value >= low && *value <= high) return *value;
  }
  expected(integers_between(low, high));
  return low;
}

double JsonReader::number(double low) const {
  if (absent()) return low;
  const std::string_view text = file_->document().source(node_);
  if (kind() == JsonKind::number) {
    const auto value = number_in<double>(text);
    if (value && std::isfinite(*value) && *value >= low) return *value;
  }
  expected(fmt::format("a number >= {}", low));
  return low;
}

bool JsonReader::boolean() const {
  if (absent()) return false;
  if (kind() != JsonKind::boolean) expected("true or false");
  return file_->document().source(node_) == "true";
}

std::string JsonReader::string() const {
  if (absent()) return {};
  if (kind() != JsonKind::string) {
    expected("a string");
    return {};
  }
  std::string text = file_->document().string(node_);
  if (text.find('\0') != std::string::npos) expected("a string without U+0000");
  return text;
}

std::string JsonReader::line() const {
  std::string text = string();
  const std::size_t end = end_of_line(text);
  // string() has diagnosed U+0000.
  if (end != std::string::npos && text[end] != '\0') expected("a string without line breaks");
  return text;
}

Duration JsonReader::duration() const { return Duration{int64(0, kLongestDuration.count())}; }

Bytes JsonReader::bytes() const { return int64(0, kMostBytes); }

std::size_t JsonReader::choice(const std::vector<std::string>& names) const {
  if (absent()) return 0;
  std::string listed;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) listed += i + 1 == names.size() ? " or " : ", ";
    listed += fmt::format("\"{}\"", names[i]);
  }
  if (kind() != JsonKind::string) {
    expected(listed);
    return 0;
  }
  const std::string word = file_->document().string(node_);
  const auto found = std::find(names.begin(), names.end(), word);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  diagnose(fmt::format("expected {}, found {}{}", listed, show(file_->document(), node_),
                       did_you_mean(word, names)));
  return 0;
}

void read_version(const JsonReader& root, std::int64_t known) {
  const JsonReader version = root["version"];
  if (version.absent()) return;
  const std::int64_t found = version.integer(1, std::numeric_limits<std::int32_t>::max());
  if (found > known) {
    version.diagnose(fmt::format("expected version {}, found {}", known, found),
                     "written by a newer tandem");
  }
}

}  // namespace tandem
