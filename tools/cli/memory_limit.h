#pragma once
// How much memory this process may use, what its allocator keeps, and stacks that do not depend on
// `ulimit -s`.

#include <filesystem>
#include <functional>
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
/// Puts `who` before that, where several processes are one run. Before check_fits_memory().
void name_process(const std::string& who);

/// "profiling this model needs about 3.2 GiB of memory": on stderr, where it is a GiB or more.
void tell_memory(Bytes needed, const std::string& what);

/// Has the allocator keep what is freed, up to 256 MiB at its end, instead of giving it back: else
/// the system clears the same pages again for each program, which is a quarter of the time from a
/// schedule's name to its result, and for each table of a large one. Of the whole process, so it is
/// a command's choice and no library's.
void keep_freed_memory();

/// What `command` returns. It runs, and so do all threads started from here on, on a
/// stack of 8 MiB at least: kernels of libraries take more than the 256 KiB that a shell may allow,
/// and what is beyond a stack may be another thread's memory. REQUIRES: it throws nothing.
int with_stack_room(const std::function<int()>& command);

}  // namespace tandem::tools
