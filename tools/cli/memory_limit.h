#pragma once
// How much memory this process may use.

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/units.h"

namespace tandem::tools {

/// The least limit of the control groups that this process is in, of either version, as of
/// containers and batch systems; empty: they set none. `root`: where /proc and /sys are.
std::optional<Bytes> group_memory_limit(const std::filesystem::path& root = "/");

/// Throws InfeasibleError with both figures when `what` needs more memory than the machine has, or
/// than this process may use of it.
void check_fits_memory(Bytes needed, const std::string& what);

/// "profiling this model needs about 3.2 GiB of memory": on stderr, where it is a GiB or more.
void tell_memory(Bytes needed, const std::string& what);

}  // namespace tandem::tools
