#pragma once
// The alphabet in which byte-level tokenizers write tokens (GPT-2's encoder.py, bytes_to_unicode):
// bytes that are printable characters of Latin-1 stand for themselves, the other 68, in order, are
// U+0100 and those that follow.

#include <optional>
#include <string>
#include <string_view>

namespace tandem {

/// The bytes that a token of the vocabulary stands for; nothing where one of its characters is not
/// of the alphabet. REQUIRES: valid UTF-8.
std::optional<std::string> bytes_of_token(std::string_view token);

/// The inverse of bytes_of_token().
std::string token_of_bytes(std::string_view bytes);

}  // namespace tandem
