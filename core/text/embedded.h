#pragma once
// Files put into the binary by the assembler, so that what needs them needs no path.

#include <cstddef>
#include <string_view>

/// Defines `std::string_view name()`: what is in `file`, a string literal. `name` is one of a kind
/// in the program.
#define TANDEM_EMBED(name, file)                                                              \
  asm(".section .rodata\n"                                                                    \
      ".global tandem_embedded_" #name                                                        \
      "\n"                                                                                    \
      ".global tandem_embedded_" #name                                                        \
      "_end\n"                                                                                \
      "tandem_embedded_" #name                                                                \
      ":\n"                                                                                   \
      ".incbin \"" file                                                                       \
      "\"\n"                                                                                  \
      "tandem_embedded_" #name                                                                \
      "_end:\n"                                                                               \
      ".byte 0\n"                                                                             \
      ".text\n");                                                                             \
  extern "C" const char tandem_embedded_##name[], tandem_embedded_##name##_end[];             \
  std::string_view name() {                                                                   \
    return {tandem_embedded_##name,                                                           \
            static_cast<std::size_t>(tandem_embedded_##name##_end - tandem_embedded_##name)}; \
  }                                                                                           \
  static_assert(true)
