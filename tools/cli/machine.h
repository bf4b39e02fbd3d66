#pragma once
// What machine this is.

#include <string>

namespace tandem::tools {

/// "AMD EPYC 9B45, 2 cores".
std::string machine_name();

/// "tandem 0.1.0".
std::string tool_name();

/// This moment, "2026-11-21T15:14:00Z".
std::string utc_now();

}  // namespace tandem::tools
