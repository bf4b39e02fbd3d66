#pragma once
// What the terminal can show.

#include "traces/picture.h"

namespace tandem::tools {

/// Width and colour of stdout: 100 columns and none when it is no terminal; NO_COLOR and TERM=dumb
/// are respected.
PictureOptions picture_options();

/// stderr is a terminal: progress may be shown.
bool progress_is_shown();

}  // namespace tandem::tools
