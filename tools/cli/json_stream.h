#pragma once
// JSON that is written as it is made, in the form that print_result() gives it.

#include <string_view>
#include <utility>
#include <vector>

#include "core/text/text_sink.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

class JsonStream {
 public:
  explicit JsonStream(TextSink out) : out_(std::move(out)) {}

  /// An object or an array, where a value may stand: `bracket` is { or [.
  JsonStream& open(char bracket);
  /// Its end, } or ].
  JsonStream& close(char bracket);
  JsonStream& key(std::string_view name);
  JsonStream& item(const Json& value);
  JsonStream& member(std::string_view name, const Json& value) { return key(name).item(value); }
  void end() { out_("\n"); }

 private:
  /// The comma, the line and what it begins with.
  void begin();

  TextSink out_;
  std::vector<bool> empty_;  // of what is open, the innermost last
  bool after_key_ = false;
};

}  // namespace tandem::tools
