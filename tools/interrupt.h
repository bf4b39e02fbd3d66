#pragma once
// Ctrl-C as a stop token: work ends in good order, files are closed properly, the exit code is 130.

#include <memory>
#include <stop_token>
#include <thread>

namespace tandem::tools {

/// While it lives, SIGINT and SIGTERM request a stop instead of killing the process; a second one
/// kills. REQUIRES: made before the threads that do the work, which inherit its signal mask.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::jthread watcher_;
};

}  // namespace tandem::tools
