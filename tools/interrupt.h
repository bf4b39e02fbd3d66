#pragma once
// Ctrl-C as a stop token: work ends in good order, files are closed properly, the exit code is 130.

#include <memory>
#include <stop_token>

namespace tandem::tools {

/// While it lives, SIGINT and SIGTERM request a stop instead of killing the process; a second one
/// kills. One made while another lives, on whatever thread, shares its stop. REQUIRES: the first is
/// made before the threads that do the work, which inherit its signal mask, and outlives the
/// others.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  std::stop_token token() const;

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
};

}  // namespace tandem::tools
