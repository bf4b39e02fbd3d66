#pragma once
// What is read and what is written: a command never replaces a file that it reads.

#include <vector>

#include "tools/cli/options.h"

namespace tandem::tools {

/// Throws UsageError where an output is a file that is read, or another output, by whatever names
/// and links; also of the files that a plan among the inputs names.
void check_files_differ(const Options& options, const std::vector<NamedFile>& outputs);

}  // namespace tandem::tools
