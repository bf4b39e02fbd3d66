#pragma once
// What is read and what is written: a command never replaces a file that it reads, and outputs are
// checked before the work: nobody trains for an hour to learn that a folder does not exist.

#include <string>

#include "tools/cli/options.h"

namespace tandem::tools {

/// Throws UsageError where an output is a file that is read, or another output, by whatever names
/// and links; also of the files that a plan among the inputs names.
void check_files_differ(const Options& options);

/// Throws DeviceError with the reason when a file at `path` can't be written; changes nothing. A
/// disk may still be full, or fill up.
void check_can_write(const std::string& path);

}  // namespace tandem::tools
