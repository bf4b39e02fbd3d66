#pragma once
// FNV-1a: to tell texts apart that nobody made look alike.

#include <cstdint>
#include <string_view>

namespace tandem::tools {

inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace tandem::tools
