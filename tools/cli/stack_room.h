#pragma once
// Stacks that do not depend on `ulimit -s`.

#include <functional>

namespace tandem::tools {

/// What `command` returns. It runs, and so do all threads started from here on, on a
/// stack of 8 MiB at least: kernels of libraries take more than the 256 KiB that a shell may allow,
/// and what is beyond a stack may be another thread's memory. REQUIRES: it throws nothing.
int with_stack_room(const std::function<int()>& command);

}  // namespace tandem::tools
