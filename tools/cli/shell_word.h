#pragma once

#include <string>

namespace tandem::tools {

/// A word as a shell reads it back: in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace tandem::tools
