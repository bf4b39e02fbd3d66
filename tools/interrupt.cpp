#include "tools/interrupt.h"

#include <csignal>
#include <ctime>
#include <utility>

namespace tandem::tools {

namespace {

/// Without those that whoever started us wants ignored, as of a job in the background.
sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction now{};
    const bool ignored = sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::jthread([this, set](const std::stop_token& ended) {
    constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!ended.stop_requested()) {
      const int signal = sigtimedwait(&set, nullptr, &kPatience);
      if (signal <= 0) continue;
      if (stop_.request_stop()) continue;
      // The second one does what it does to any process.
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      std::raise(signal);
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
