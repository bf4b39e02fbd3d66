#include "tools/sweep/sweep_work.h"

#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

namespace {

class Work {
 public:
  Work(const SweepSpace& space, const std::vector<std::size_t>& which, std::stop_token stop,
       const std::function<void(ComputedRow)>& take)
      : space_(space), which_(which), stop_(std::move(stop)), take_(take) {}

  /// What each thread does.
  void run() {
    while (const auto place = begin()) {
      try {
        const Json line = sweep_line(space_, which_[*place]);
        finish(*place, {row_of(line), line_of(line)});
      } catch (const Interrupted&) {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
        if (failure_ == nullptr) failure_ = std::current_exception();
      }
    }
  }

  /// When all threads are through. A search that was interrupted has no row: those behind it are
  /// handed over all the same.
  void end() {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    for (auto& [place, row] : waiting_) take_(std::move(row));
  }

 private:
  /// Which one is next; empty: none.
  std::optional<std::size_t> begin() {
    const std::scoped_lock lock(mutex_);
    if (ended_ || stop_.stop_requested() || begun_ == which_.size()) return std::nullopt;
    return begun_++;
  }

  void finish(std::size_t place, ComputedRow row) {
    const std::scoped_lock lock(mutex_);
    if (failure_ != nullptr) return;
    waiting_.emplace(place, std::move(row));
    while (!waiting_.empty() && waiting_.begin()->first == taken_) {
      ++taken_;
      auto first = waiting_.extract(waiting_.begin());
      take_(std::move(first.mapped()));
    }
  }

  const SweepSpace& space_;
  const std::vector<std::size_t>& which_;
  const std::stop_token stop_;
  const std::function<void(ComputedRow)>& take_;

  std::mutex mutex_;
  std::size_t begun_ = 0, taken_ = 0;
  std::map<std::size_t, ComputedRow> waiting_;  // for those before them
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace

void compute_rows(const SweepSpace& space, const std::vector<std::size_t>& which, int threads,
                  const std::stop_token& stop, const std::function<void(ComputedRow)>& take) {
  Work work(space, which, stop, take);
  {
    std::vector<std::jthread> others;
    for (int i = 0; i < threads; ++i) others.emplace_back([&work] { work.run(); });
  }
  work.end();
}

}  // namespace tandem::tools
