#pragma once
// What pictures in SVG have in common: text that XML can hold, and the head of a report's picture.

#include <string>
#include <string_view>

namespace tandem {

/// Text that XML can hold: markup and control characters can't stand in it as they are, nor bytes
/// that aren't UTF-8.
std::string xml(std::string_view text);

/// Up to what is drawn: size, texts for screen readers, ground, title and the looks by class, on a
/// light ground and on a dark one.
std::string svg_head(double width, double height, std::string_view title,
                     std::string_view description);

}  // namespace tandem
