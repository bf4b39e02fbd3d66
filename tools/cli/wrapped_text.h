#pragma once
// Text for people in lines that a terminal has, and words for shells.

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::tools {

/// Lines of at most `columns` characters, cut at spaces; those behind the first begin with `indent`
/// spaces. What has no space may be longer. Lines that the text has already stay.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

/// A word as a shell reads it back: in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace tandem::tools
