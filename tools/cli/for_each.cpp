#include "tools/cli/for_each.h"

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tandem::tools {

void for_each_on(int threads, std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto all = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::scoped_lock lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < threads; ++i) others.emplace_back(all);
    } catch (...) {  // one does not start: those that did end
      next = count;
      throw;
    }
    all();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace tandem::tools
