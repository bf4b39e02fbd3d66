#include "tools/interrupt.h"

#include <csignal>
#include <ctime>
#include <utility>

namespace tandem::tools {

namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::jthread([this, set](const std::stop_token& ended) {
    constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!ended.stop_requested()) {
      if (sigtimedwait(&set, nullptr, &kPatience) <= 0) continue;
      stop_.request_stop();
      // The next one does what it does to any process.
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      return;
    }
  });
}

InterruptGuard::~InterruptGuard() {
  watcher_.request_stop();
  watcher_.join();
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace tandem::tools
