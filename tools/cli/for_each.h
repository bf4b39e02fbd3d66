#pragma once
// Independent work on several threads, its results in order where that matters.

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace tandem::tools {

/// Calls `work` for 0 to `count` - 1 on so many threads, each taking the next one when it is done
/// with one. Throws what is thrown first, after which no more is begun.
void for_each_on(int threads, std::size_t count, const std::function<void(std::size_t)>& work);

/// Calls `make` for 0 to `count` - 1, on whatever thread, and `take` with what it returns, in their
/// order and one at a time. Where `make` throws Interrupted, those begun are finished and handed
/// over. Throws what else is thrown first.
template <class Make, class Take>
void work_in_order(int threads, std::size_t count, const Make& make, const Take& take) {
  std::mutex mutex;
  std::size_t taken = 0;
  std::map<std::size_t, decltype(make(count))> waiting;  // for those before them
  try {
    for_each_on(threads, count, [&](std::size_t place) {
      auto result = make(place);
      const std::scoped_lock lock(mutex);
      waiting.emplace(place, std::move(result));
      while (!waiting.empty() && waiting.begin()->first == taken) {
        auto first = waiting.extract(waiting.begin());
        take(std::move(first.mapped()));
        ++taken;  // not where that failed: nothing is to follow
      }
    });
  } catch (const Interrupted&) {
  }
  for (auto& [place, result] : waiting) take(std::move(result));
}

}  // namespace tandem::tools
