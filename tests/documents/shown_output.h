#pragma once
// Output as a page shows it, held against output as printed. "…" stands for what the page leaves
// out: alone on a line for any lines, within a line for any characters.

#include <string>
#include <vector>

namespace tandem::testing {

using Lines = std::vector<std::string>;

enum class Numbers { exact, by_shape };

/// What remains of a measured line: numbers are "#", units of time and of bytes are one each, gaps
/// and rules are as wide as one character.
std::string shape_of(const std::string& line);

/// "" where the page shows what was printed; else the first line that differs, and how.
std::string difference(const Lines& shown, const Lines& printed, Numbers numbers);

/// What the page should show: `shown` itself where it holds; else what was printed, with the same
/// parts left out, which are found by their lines' shapes.
Lines rewritten(const Lines& shown, const Lines& printed, Numbers numbers);

}  // namespace tandem::testing
