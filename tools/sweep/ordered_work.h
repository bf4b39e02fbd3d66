#pragma once
// Independent pieces of work on several threads, their results handed over in order.

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "core/base/error.h"
#include "tools/cli/threads.h"

namespace tandem::tools {

template <class Result>
class OrderedWork {
 public:
  using Make = std::function<Result(std::size_t)>;
  using Take = std::function<void(Result)>;

  /// `make` is called for 0 to `count` - 1, on whatever thread; `take` in their order, one at a
  /// time. Both outlive it.
  OrderedWork(std::size_t count, std::stop_token stop, const Make& make, const Take& take)
      : count_(count), stop_(std::move(stop)), make_(make), take_(take) {}

  /// After a stop, or where `make` throws Interrupted, those begun are finished and handed over.
  /// Throws what else is thrown first.
  void run(int threads) {
    on_threads(threads, [this] { work(); }, [this] { end(); });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    for (auto& [place, result] : waiting_) take_(std::move(result));
  }

 private:
  /// What each thread does.
  void work() {
    while (const auto place = begin()) {
      try {
        finish(*place, make_(*place));
      } catch (const Interrupted&) {
        end();
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
        if (failure_ == nullptr) failure_ = std::current_exception();
      }
    }
  }

  /// No more is begun.
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }

  /// Which one is next; empty: none.
  std::optional<std::size_t> begin() {
    const std::scoped_lock lock(mutex_);
    if (ended_ || stop_.stop_requested() || begun_ == count_) return std::nullopt;
    return begun_++;
  }

  void finish(std::size_t place, Result result) {
    const std::scoped_lock lock(mutex_);
    if (failure_ != nullptr) return;
    waiting_.emplace(place, std::move(result));
    while (!waiting_.empty() && waiting_.begin()->first == taken_) {
      ++taken_;
      auto first = waiting_.extract(waiting_.begin());
      take_(std::move(first.mapped()));
    }
  }

  const std::size_t count_;
  const std::stop_token stop_;
  const Make& make_;
  const Take& take_;

  std::mutex mutex_;
  std::size_t begun_ = 0, taken_ = 0;
  std::map<std::size_t, Result> waiting_;  // for those before them
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace tandem::tools
