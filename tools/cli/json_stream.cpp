#include "tools/cli/json_stream.h"

#include <algorithm>

namespace tandem::tools {

namespace {

std::string line_start(std::size_t depth) { return "\n" + std::string(2 * depth, ' '); }

}  // namespace

void JsonStream::begin() {
  if (std::exchange(after_key_, false) || empty_.empty()) return;
  out_((empty_.back() ? "" : ",") + line_start(empty_.size()));
  empty_.back() = false;
}

JsonStream& JsonStream::open(char bracket) {
  begin();
  out_(std::string(1, bracket));
  empty_.push_back(true);
  return *this;
}

JsonStream& JsonStream::close(char bracket) {
  const bool empty = empty_.back();
  empty_.pop_back();
  out_((empty ? std::string() : line_start(empty_.size())) + bracket);
  return *this;
}

JsonStream& JsonStream::key(std::string_view name) {
  begin();
  out_(indented(name) + ": ");
  after_key_ = true;
  return *this;
}

JsonStream& JsonStream::item(const Json& value) {
  begin();
  const std::string text = indented(value);
  const std::string start = line_start(empty_.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out_(start);
    out_(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  return *this;
}

}  // namespace tandem::tools
