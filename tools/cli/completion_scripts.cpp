// TANDEM_COMPLETIONS: the folder of the scripts. A file of its own, for it is compiled alone.

#include "core/text/embedded.h"
#include "tools/cli/completion.h"

namespace tandem::tools {

TANDEM_EMBED(bash_script_text, TANDEM_COMPLETIONS "/tandem.bash");
TANDEM_EMBED(zsh_script_text, TANDEM_COMPLETIONS "/tandem.zsh");

}  // namespace tandem::tools
