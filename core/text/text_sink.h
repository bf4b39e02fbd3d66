#pragma once
// Where long text goes piece by piece, so that it need not be held whole.

#include <functional>
#include <string>
#include <string_view>

namespace tandem {

/// Takes the text, a piece at a time, in order.
using TextSink = std::function<void(std::string_view)>;

/// All that `write` sends to its sink.
template <class Write>
std::string collected(const Write& write) {
  std::string text;
  write([&text](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace tandem
