#pragma once
// What the text of one option says.

#include <cstdint>
#include <string>
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
  std::string command_, name_, text_;
};

}  // namespace tandem::tools
