#pragma once
// tandem import --from nccl-tests: constants of all-reduces from logs, and how well they fit.

#include "tools/cli/options.h"

namespace tandem::tools {

/// Fits, writes --output where it is given, and reports on stdout, or with --json as an object.
/// Throws InputError.
void import_collectives(const Options& options);

}  // namespace tandem::tools
