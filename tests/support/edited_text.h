#pragma once
// Files with a mistake: a text with one part of it replaced.

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tandem::testing {

/// A `part` that is not in the text fails the test.
inline std::string with(std::string text, std::string_view part, std::string_view instead) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), instead);
}

}  // namespace tandem::testing
