// The shipped text, put into the binary by the assembler, so that training needs no path.
// TANDEM_SHIPPED_TEXT: its file.

#include <cstddef>
#include <string_view>

#include "executor/data/data.h"

asm(".section .rodata\n"
    ".global tandem_shipped_text_first\n"
    ".global tandem_shipped_text_last\n"
    "tandem_shipped_text_first:\n"
    ".incbin \"" TANDEM_SHIPPED_TEXT
    "\"\n"
    "tandem_shipped_text_last:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char tandem_shipped_text_first[];
extern const char tandem_shipped_text_last[];
}

namespace tandem {

std::string_view shipped_text() {
  return {tandem_shipped_text_first,
          static_cast<std::size_t>(tandem_shipped_text_last - tandem_shipped_text_first)};
}

}  // namespace tandem
