#pragma once
// Reading a JSON file with a schema: JsonFile collects every diagnostic, JsonReader is a cursor on
// one value of it.
//
//   JsonFile file("plan.json", text);
//   const JsonReader root = file.root();
//   if (root.object({"version", "depth", "stages"})) {
//     plan.request.devices = root["depth"].integer<std::uint16_t>(1, 65535);
//     for (const JsonReader& stage : root["stages"].array()) …
//   }
//   file.finish();  // throws InputError with all that was wrong
//
// A getter that can't give what it was asked for diagnoses that and returns a value of its range,
// so that reading goes on to the next mistake; what was read is used only after finish().

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/text/json_document.h"

namespace tandem {

class JsonReader;

class JsonFile {
 public:
  /// Throws InputError where `text` isn't JSON or has more than `most` bytes.
  JsonFile(std::string file, std::string text, std::size_t most = kLargestJson);

  JsonReader root();
  const JsonDocument& document() const { return document_; }

  /// How many things were wrong so far.
  std::size_t diagnostics() const { return diagnostics_.size() + unlisted_; }
  /// So many diagnostics that further ones are only counted.
  bool full() const;
  /// About a node; reported in the order of the text.
  void diagnose(std::size_t node, std::string message, std::string hint = {});
  /// Throws InputError with the diagnostics, if there are any; of very many the first, and their
  /// number.
  void finish() const;

 private:
  struct Pending {
    std::size_t node = 0;
    std::string message, hint;
  };

  JsonDocument document_;
  std::vector<Pending> diagnostics_;
  std::size_t unlisted_ = 0;
};

/// One duration of an op in a file is at most a day: sums of them stay far from int64's end.
inline constexpr Duration kLongestDuration = std::chrono::hours(24);

/// The least rate of bytes or operations a second in a file.
inline constexpr double kLeastRate = 1.0;

/// A cheap copyable cursor. That of a missing key is absent: its getters give values and diagnose
/// nothing. REQUIRES: outlived by its JsonFile.
class JsonReader {
 public:
  JsonReader() = default;
  JsonReader(JsonFile& file, std::size_t node) : file_(&file), node_(node) {}

  bool absent() const { return file_ == nullptr; }
  JsonKind kind() const;

  /// Diagnoses what isn't an object, keys that are not among `keys` (unless they start with
  /// "x-"), and of keys that are there twice. True for an object, however faulty.
  bool object(std::span<const std::string_view> keys) const;
  bool object(std::initializer_list<std::string_view> keys) const {
    return object(std::span(keys.begin(), keys.size()));
  }
  /// The same of others' formats, where any key may stand.
  bool any_object() const;
  /// The value of a key. Diagnoses that it's missing, and returns an absent reader.
  JsonReader operator[](std::string_view key) const;
  /// The value of a key, or an absent reader.
  JsonReader optional(std::string_view key) const;
  bool has(std::string_view key) const { return !optional(key).absent(); }
  /// The elements; diagnoses what isn't an array.
  std::vector<JsonReader> array() const;
  /// The keys of an object and their values, in order; none of what isn't one.
  std::vector<std::pair<std::string, JsonReader>> members() const;

  /// An integer in [low, high], written as one: 3.0 and "3" are refused.
  template <class Int = std::int64_t>
  Int integer(std::type_identity_t<Int> low, std::type_identity_t<Int> high) const {
    static_assert(sizeof(Int) < sizeof(std::int64_t) || std::is_signed_v<Int>);
    return static_cast<Int>(int64(low, high));
  }
  /// A finite number, at least `low`.
  double number(double low) const;
  bool boolean() const;
  /// Text without U+0000.
  std::string string() const;
  /// A string() that is printed within a line, so that its own must not look like lines of ours: no
  /// line breaks.
  std::string line() const;
  /// Integer nanoseconds, 0 … kLongestDuration, of a key that ends in _ns.
  Duration duration() const;
  /// Integer bytes, 0 … 2^60.
  Bytes bytes() const;
  /// The value whose name() the string is, of an enum of `count`. Of something else: the first.
  template <class Enum>
  Enum one_of(std::size_t count) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.emplace_back(name(static_cast<Enum>(i)));
    return static_cast<Enum>(choice(names));
  }

  /// How many things were wrong with the file so far: a check of several values is worth making
  /// only when reading them has not changed it.
  std::size_t diagnostics() const { return absent() ? 0 : file_->diagnostics(); }
  /// Diagnoses this value: what was expected, what was found.
  void diagnose(std::string message, std::string hint = {}) const;
  /// "expected <what>, found <this value>".
  void expected(const std::string& what, std::string hint = {}) const;

 private:
  std::int64_t int64(std::int64_t low, std::int64_t high) const;
  std::size_t choice(const std::vector<std::string>& names) const;
  /// Of keys among `known`; null: of any.
  bool object_of(const std::vector<std::string>* known) const;
  void check_keys(const std::vector<std::string>* known) const;

  JsonFile* file_ = nullptr;
  std::size_t node_ = 0;
};

/// Diagnoses a file unless key "version" is `known`.
void read_version(const JsonReader& root, std::int64_t known);

}  // namespace tandem
