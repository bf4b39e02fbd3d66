#include "executor/data/tokenizer/byte_alphabet.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {
namespace {

constexpr std::uint16_t kFirstOther = 0x100;  // the character of the first byte that has none
constexpr std::size_t kCharacters = 0x144;

constexpr bool stands_for_itself(std::size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Alphabet {
  std::array<std::uint16_t, 256> character_of{};
  std::array<std::int16_t, kCharacters> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  std::uint16_t other = kFirstOther;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto character = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : other++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::size_t character = static_cast<unsigned char>(token[i]);
    if (character >= 0xE0) return std::nullopt;  // beyond U+07FF
    if (character >= 0xC0) {
      ++i;
      character = (character & 0x1Fu) << 6u | (static_cast<unsigned char>(token[i]) & 0x3Fu);
    }
    if (character >= kCharacters || kAlphabet.byte_of[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte_of[character]));
  }
  return bytes;
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) {
    const std::uint16_t character = kAlphabet.character_of[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      token.push_back(static_cast<char>(character));
    } else {
      token.push_back(static_cast<char>(0xC0 | character >> 6));
      token.push_back(static_cast<char>(0x80 | (character & 0x3F)));
    }
  }
  return token;
}

}  // namespace tandem
