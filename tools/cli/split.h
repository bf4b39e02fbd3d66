#pragma once
// Parts of an option's value.

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::tools {

/// What stands between any of `marks`, also where that is nothing: at least one part.
inline std::vector<std::string_view> split(std::string_view text, std::string_view marks) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size(); at += parts.back().size() + 1)
    parts.push_back(text.substr(at, text.find_first_of(marks, at) - at));
  return parts;
}

/// What stands before the first `mark` and behind it; without one the second is empty.
inline std::pair<std::string_view, std::string_view> halved(std::string_view text, char mark) {
  const std::size_t at = std::min(text.find(mark), text.size());
  return {text.substr(0, at), text.substr(std::min(at + 1, text.size()))};
}

}  // namespace tandem::tools
