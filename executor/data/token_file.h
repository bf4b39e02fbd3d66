#pragma once
// The token files that there are, little-endian all:
//   llm.c, GPT-2    a header of 256 int32 — magic 20240520, version 1, count, zeros — and uint16
//   llm.c, Llama 3  the same with magic 20240801, version 7, and uint32
//   nanoGPT         uint16 and no header: what begins with neither magic

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

struct TokenFileLayout {
  std::size_t first = 0;  // byte of the first token
  std::size_t width = 2;  // bytes of a token
  bool has_header = true;
};

/// Throws InputError naming `path` where the bytes are no token file, are cut short or hold no
/// tokens.
TokenFileLayout token_file_layout(const std::string& path, std::string_view bytes);

}  // namespace tandem
