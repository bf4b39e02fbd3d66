#pragma once
// What is read and what is written: a command never replaces a file that it reads.

#include <string>
#include <vector>

#include "tools/cli/options.h"

namespace tandem::tools {

/// Where a file that a plan names is: relative to the plan's own folder.
std::string beside(const std::string& plan_path, const std::string& file);

/// The files that are read because the plan names them; none of a plan that can't be read.
std::vector<NamedFile> files_named_by_plan(const std::string& path);

/// Throws UsageError where an output is a file that is read, or another output, by whatever names
/// and links; also of the files that a plan among the inputs names.
void check_files_differ(const Options& options);

}  // namespace tandem::tools
