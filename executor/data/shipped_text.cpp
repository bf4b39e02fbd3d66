// The shipped text, in the binary. TANDEM_SHIPPED_TEXT: its file.

#include "core/text/embedded.h"
#include "executor/data/data.h"

namespace tandem {

TANDEM_EMBED(shipped_text, TANDEM_SHIPPED_TEXT);

}  // namespace tandem
