#pragma once
// Outputs are checked before the work: nobody trains for an hour to learn that the folder of the
// trace does not exist.

#include <string>

namespace tandem::tools {

/// Throws DeviceError with the reason when a file at `path` can't be written; changes nothing. A
/// disk may still be full, or fill up.
void check_can_write(const std::string& path);

}  // namespace tandem::tools
