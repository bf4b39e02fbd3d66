#pragma once
// tandem profile --ranks: a part of its own, as it measures no model.

#include "tools/cli/options.h"

namespace tandem::tools {

int run_profile_ranks(const Options& options);

}  // namespace tandem::tools
