#include "tools/cli/malloc_options.h"

#include <malloc.h>

namespace tandem::tools {

void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_MAX, 0);  // a block with a mapping of its own would be given back
}

}  // namespace tandem::tools
