#pragma once
// What the text of one option says.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/units.h"

namespace tandem::tools {

class OptionValue {
 public:
  /// `command` and `name`, without "--", are for messages.
  OptionValue(std::string command, std::string name, std::string text)
      : command_(std::move(command)), name_(std::move(name)), text_(std::move(text)) {}

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  /// Throws UsageError: what the text should have been, and what follows it.
  [[noreturn]] void reject(const std::string& expected, const std::string& after = {}) const;

  /// Throw UsageError unless the text says one.
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double number(double least, double most) const;
  Duration duration() const;
  Bytes bytes() const;
  /// Bytes a second, above zero.
  double rate() const;
  /// One of `choices`.
  std::string choice(const std::vector<std::string>& choices) const;

 private:
  template <class Value>
  Value or_reject(const std::optional<Value>& value, const char* expected) const {
    if (!value) reject(expected);
    return *value;
  }

  std::string command_, name_, text_;
};

/// Names as a list of choices takes them.
template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

/// The one of these values whose name() the text is; empty: it is `none`, which may be said, too.
/// Throws UsageError.
template <class Enum>
std::optional<Enum> one_of(const OptionValue& value, std::initializer_list<Enum> all,
                           const char* none = nullptr) {
  std::vector<std::string> names;
  if (none != nullptr) names.emplace_back(none);
  for (const Enum one : all) names.emplace_back(name(one));
  const std::string chosen = value.choice(names);
  const auto* const found =
      std::ranges::find_if(all, [&](Enum one) { return name(one) == chosen; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

}  // namespace tandem::tools
