#include "tools/cli/under_way.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem::tools {

void UnderWay::look(const std::function<void(const std::string&)>& show) {
  const std::scoped_lock lock(mutex_);
  if (all_.empty()) return;
  const auto telling =
      std::ranges::find_if(all_, [](const Work& one) { return one.says || one.steps > 0; });
  const Work& work = telling == all_.end() ? all_.back() : *telling;
  show(work.says || work.steps == 0
           ? work.what
           : fmt::format("{}: {} of {}", work.what, work.done, work.steps));
}

UnderWay::Work& UnderWay::find(const Activity& work) {
  return *std::ranges::find(all_, &work, &Work::which);
}

void UnderWay::began(const Activity& work, const std::string& what, std::int64_t steps) {
  const std::scoped_lock lock(mutex_);
  all_.push_back({&work, what, steps});
}

void UnderWay::stepped(const Activity& work, std::int64_t more) {
  const std::scoped_lock lock(mutex_);
  find(work).done += more;
}

void UnderWay::said(const Activity& work, const std::function<std::string()>& words) {
  constexpr std::chrono::milliseconds kBetweenChanges(100);
  const Clock::time_point now = Clock::now();
  if (now.time_since_epoch().count() < listens_again_) return;
  listens_again_ = Clock::time_point(now + kBetweenChanges).time_since_epoch().count();
  std::string text = words();
  const std::scoped_lock lock(mutex_);
  Work& one = find(work);
  one.what = std::move(text);
  one.says = true;
}

void UnderWay::ended(const Activity& work) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(all_, [&](const Work& one) { return one.which == &work; });
  if (all_.empty()) idle_();
}

void UnderWay::keep_going() {
  if (end_.load(std::memory_order_relaxed)) throw Interrupted("interrupted");
}

Silence::Silence(std::chrono::milliseconds longest, std::function<void()> speak)
    : longest_(longest),
      speak_(std::move(speak)),
      thread_([this](const std::stop_token& ended) { run(ended); }) {}

/// Before what `speak` looks at is gone.
Silence::~Silence() {
  thread_.request_stop();
  thread_.join();
}

void Silence::broken() {
  {
    const std::scoped_lock lock(mutex_);
    broken_ = true;
  }
  changed_.notify_one();
}

void Silence::run(const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  while (!ended.stop_requested()) {
    broken_ = false;
    const bool spoken = changed_.wait_for(lock, ended, longest_, [this] { return broken_; });
    if (!spoken && !ended.stop_requested()) speak_();
  }
}

}  // namespace tandem::tools
