#pragma once
// How much memory this process may use.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/units.h"

namespace tandem::tools {

/// The least limit of the control groups that this process is in, of either version, as of
/// containers and batch systems; empty: they set none. `root`: where /proc and /sys are.
std::optional<Bytes> group_memory_limit(const std::filesystem::path& root = "/");

/// What the machine can still give without swapping; empty: it does not say.
std::optional<Bytes> available_memory(const std::filesystem::path& root = "/");

/// Throws InfeasibleError with both figures when `what` needs more memory than the machine has
/// left, or than this process may still use of it.
void check_fits_memory(Bytes needed, const std::string& what);

/// What a command says when memory runs out all the same: with both figures where a need was
/// checked. Takes no memory.
std::string_view out_of_memory();

/// "profiling this model needs about 3.2 GiB of memory": on stderr, where it is a GiB or more.
void tell_memory(Bytes needed, const std::string& what);

}  // namespace tandem::tools
