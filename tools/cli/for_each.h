#pragma once
// Independent work on several threads.

#include <cstddef>
#include <functional>

namespace tandem::tools {

/// Calls `work` for 0 to `count` - 1 on so many threads, each taking the next one when it is done
/// with one. Throws what is thrown first, after which no more is begun.
void for_each_on(int threads, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace tandem::tools
