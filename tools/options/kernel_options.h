#pragma once
// --kernels and --products: which code computes the products of matrices, and from which numbers.

#include "tools/cli/options.h"

namespace tandem::tools {

void add_kernel_options(Options& options);

/// To be called before anything is computed. Throws UsageError, or AbsentError for what this build
/// or machine does not have. `on_host`: else the backend rounds
/// factors itself, whatever this processor can.
void choose_kernels(const Options& options, bool on_host);

}  // namespace tandem::tools
