#pragma once
// What the terminal can show; text for people in lines that it has, and words for shells.

#include <cstddef>
#include <string>
#include <string_view>

#include "traces/picture.h"

namespace tandem::tools {

/// Width and colour of stdout: 100 columns and none when it is no terminal; NO_COLOR and TERM=dumb
/// are respected.
PictureOptions picture_options();

/// Characters that a line of text may have: those of stdout, at most 100; 80 where it is no
/// terminal.
std::size_t text_columns();

/// stderr is a terminal: progress may be shown.
bool progress_is_shown();
/// Characters that a line of it may have.
std::size_t progress_columns();

/// Lines of at most `columns` characters, cut at spaces; those behind the first begin with `indent`
/// spaces. What has no space may be longer. Lines that the text has already stay.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

/// A word as a shell reads it back: in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace tandem::tools
