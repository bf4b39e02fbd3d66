#include "tools/interrupt.h"

#include <csignal>
#include <ctime>
#include <mutex>
#include <thread>

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

class InterruptGuard::Watch {
 public:
  Watch() {
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
  ~Watch() {
    watcher_.request_stop();
    watcher_.join();
    const sigset_t set = interrupts();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::jthread watcher_;
};

InterruptGuard::InterruptGuard() {
  static std::mutex mutex;
  static std::weak_ptr<Watch> living;
  const std::scoped_lock lock(mutex);
  watch_ = living.lock();
  if (watch_ != nullptr) return;
  watch_ = std::make_shared<Watch>();
  living = watch_;
}

std::stop_token InterruptGuard::token() const { return watch_->token(); }

}  // namespace tandem::tools
