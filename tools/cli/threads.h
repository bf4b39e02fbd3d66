#pragma once
// Threads that begin together.

#include <functional>

namespace tandem::tools {

/// Calls `work` on so many threads, this one among them, and returns when all have. Where one does
/// not start, `end` tells those that did to end, and what starting it threw is thrown on.
void on_threads(int threads, const std::function<void()>& work, const std::function<void()>& end);

}  // namespace tandem::tools
