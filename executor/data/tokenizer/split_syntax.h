#pragma once
// Split patterns as tokenizer.json has them, in Oniguruma's syntax, written as PCRE2 takes them.
// Only what means the same in both is let through: literals, classes, \p{L}, \p{N}, \s, \r, \n,
// \t, groups that capture nothing, (?i:, lookahead, alternatives and quantifiers.

#include <string>
#include <string_view>

namespace tandem {

/// Throws InputError naming what is not supported and where in the pattern it stands. REQUIRES:
/// valid UTF-8.
std::string pcre2_pattern(std::string_view pattern);

}  // namespace tandem
