#include "tools/keep_memory.h"

#include <malloc.h>

namespace tandem::tools {

void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes; larger blocks are given back
}

}  // namespace tandem::tools
