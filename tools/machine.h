#pragma once
// What machine this is.

#include <string>

#include "core/units.h"

namespace tandem::tools {

/// "AMD EPYC 9B45, 2 cores".
std::string machine_name();

/// "tandem 0.1.0".
std::string tool_name();

/// This moment, "2026-11-21T15:14:00Z".
std::string utc_now();

/// Throws InfeasibleError when `needed` is more than this machine's memory; `what` opens the
/// message.
void check_fits_memory(Bytes needed, const std::string& what);

}  // namespace tandem::tools
