#pragma once
// picture(): a timeline as text, to scale in time, a row a device. What terminals, READMEs and
// goldens show.
//
//       ms 0         5
//   dev 0 |0 1 . . 0---. 1--|
//   dev 1 |. 0 0---1 1--|. .
//
//   3   forward   3-- backward   . idle   | update, takes no time
//   1 column = 500 us; the whole run, 9 ms

#include <string>

#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem {

/// How a picture is drawn.
struct PictureOptions {
  int columns = 100;   // width of the terminal; the picture never exceeds it, but needs about 40
  bool color = false;  // ANSI backgrounds of the Okabe-Ito palette; the text is the same without
  bool legend = true;  // the lines below the grid
};

/// Draws what computes: forward, recompute, backward and update; transfers show as the idle time
/// they cause. A box opens with its microbatch, counted from the start of the run. A box narrower
/// than its number shows the last digits. When the whole run does not fit, its beginning is drawn
/// to the same scale and the last line says so. REQUIRES: `timeline` belongs to `program`
/// (checked).
std::string picture(const Program& program, const Timeline& timeline,
                    const PictureOptions& options = {});

}  // namespace tandem
