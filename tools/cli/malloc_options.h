#pragma once
// For commands that make many programs, one after the other, or a large one.

namespace tandem::tools {

/// Has the allocator keep what is freed, up to 256 MiB at its end, instead of giving it back: else
/// the system clears the same pages again for each program, which is a quarter of the time from a
/// schedule's name to its result, and for each table of a large one. Of the whole process, so it is
/// a command's choice and no library's.
void keep_freed_memory();

}  // namespace tandem::tools
