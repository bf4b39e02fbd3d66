#pragma once
// tandem replay, the subcommand.

#include "tools/commands/command.h"

namespace tandem::tools {

int run_replay(const Arguments& arguments);

}  // namespace tandem::tools
