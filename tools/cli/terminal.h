#pragma once
// What the terminal can show.

#include <cstddef>

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

}  // namespace tandem::tools
