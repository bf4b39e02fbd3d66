#include "tools/cli/threads.h"

#include <thread>
#include <vector>

namespace tandem::tools {

void on_threads(int threads, const std::function<void()>& work, const std::function<void()>& end) {
  std::vector<std::jthread> others;
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (...) {
    end();
    throw;
  }
  work();
}

}  // namespace tandem::tools
