#include "tools/cli/silence.h"

#include <utility>

namespace tandem::tools {

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
