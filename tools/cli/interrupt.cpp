#include "tools/cli/interrupt.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <execinfo.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/temporaries.h"
#include "tools/cli/memory_limit.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/terminal.h"
#include "tools/cli/under_way.h"

namespace tandem::tools {

namespace {

using SteadyClock = std::chrono::steady_clock;

std::stop_source stop_of_all;
std::atomic<int> guards = 0, ending_by_themselves = 0;

int wake_up() { return SIGRTMIN; }

/// Without those that whoever started us wants ignored, as of a job in the background.
sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, wake_up());
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction now{};
    const bool ignored = sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&set, signal);
  }
  return set;
}

/// The signal kills when this returns.
void end_tidily(int signal) {
  remove_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Takes no memory, and is safe in a signal's handler.
void write_all(int stream, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    if (::write(stream, text.data(), text.size()) < 0) return;
  }
}

bool stdout_wants_json = false;
std::terminate_handler terminate_before = nullptr;

std::atomic_flag end_is_told = ATOMIC_FLAG_INIT;

/// As report_failure(), of a message without quotes. Takes no memory, and is safe in a signal's
/// handler. Of several threads that fail at once, the first one speaks.
[[noreturn]] void end_failed(std::string_view message) {
  while (end_is_told.test_and_set()) ::pause();
  remove_temporaries();
  write_all(STDERR_FILENO, {"error: ", message, "\n"});
  if (stdout_wants_json) {
    write_all(STDOUT_FILENO, {R"({"error": {"code": 1, "message": ")", message,
                              R"(", "pointer": "", "file": "", "line": 0, "column": 0}})", "\n"});
  }
  ::_exit(static_cast<int>(ExitCode::failed));
}

/// Takes no memory. What else ends here is a fault of ours, which aborts.
[[noreturn]] void end_without_memory() {
  try {
    if (const std::exception_ptr failure = std::current_exception())
      std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    end_failed(out_of_memory());
  } catch (...) {
    terminate_before();
  }
  std::abort();
}

}  // namespace

/// After two seconds "tandem check: 12 s, pricing configurations: 34 of 120": on a terminal a line
/// that is written over and gone at the end; elsewhere, if at all, one each ten seconds.
class ProgressLine {
 public:
  ProgressLine(std::string command, ProgressShown shown)
      : command_(std::move(command)),
        on_terminal_(progress_is_shown()),
        in_lines_(!on_terminal_ && shown == ProgressShown::anywhere),
        next_(start_ + (on_terminal_ ? kFirst : kBetweenLines)) {}

  /// Where it is time to, and something is under way.
  void show(UnderWay& under_way) {
    const SteadyClock::time_point now = SteadyClock::now();
    if ((!on_terminal_ && !in_lines_) || now < next_) return;
    under_way.look([&](const std::string& what) { write(what, now); });
  }
  /// Takes it from the terminal. From a callback of `under_way`, or when nothing is at work.
  void clear() {
    if (std::exchange(written_, false)) print_as_it_is(stderr, "\r\x1b[K");
  }

 private:
  static constexpr std::chrono::seconds kFirst{2}, kBetweenLines{10};
  static constexpr std::chrono::milliseconds kBetween{200};

  void write(const std::string& what, SteadyClock::time_point now) {
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(now - start_).count();
    const std::string text = fmt::format("tandem {}: {} s, {}", command_, passed, what);
    next_ = now + (on_terminal_ ? kBetween : kBetweenLines);
    written_ = on_terminal_;
    // A line that wraps could not be written over.
    print_as_it_is(stderr, on_terminal_
                               ? "\r\x1b[K" + printable_line(text).substr(0, progress_columns())
                               : printable_line(text) + "\n");
  }

  const std::string command_;
  const bool on_terminal_, in_lines_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  SteadyClock::time_point next_;
  bool written_ = false;  // on the terminal
};

void remove_temporaries_when_killed() {
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXCPU, SIGXFSZ}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    now.sa_handler = end_tidily;
    sigaction(signal, &now, nullptr);
  }
}

void explain_lost_mappings() {
  struct sigaction now{};
  if (sigaction(SIGBUS, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  now.sa_handler = [](int) {
    end_failed("a file became shorter while it was read, or its disk failed (SIGBUS)");
  };
  sigaction(SIGBUS, &now, nullptr);
}

void explain_lost_memory(std::span<char* const> arguments) {
  for (const std::string_view argument : arguments) stdout_wants_json |= argument == "--json";
  terminate_before = std::set_terminate(end_without_memory);
  // Has the C library find its unwinder now. It does so when the first exception comes through it,
  // and aborts where there is no memory for that.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

class Watch {
 public:
  Watch(std::string command, ProgressShown shown)
      : signals_(interrupts()),
        line_(std::move(command), shown),
        under_way_([this] { line_.clear(); }) {
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (...) {
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
      throw;
    }
    listen_to_progress(&under_way_);
  }
  ~Watch() {
    ended_ = true;
    pthread_kill(thread_.native_handle(), wake_up());
    thread_.join();
    listen_to_progress(nullptr);
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run() {
    constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!ended_) {
      const int signal = sigtimedwait(&signals_, nullptr, &kPatience);
      if (ended_) return;
      if (signal > 0 && signal != wake_up()) interrupted(signal);
      if (listens_until_ && SteadyClock::now() >= *listens_until_ && guards == 0) end();
      line_.show(under_way_);
    }
  }

  void interrupted(int signal) {
    constexpr std::chrono::seconds kGrace{1};
    if (!stop_of_all.request_stop()) {
      // The second one does what it does to any process.
      line_.clear();
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
      std::raise(signal);
    }
    if (ending_by_themselves > 0) return;
    under_way_.ask_for_end();
    listens_until_ = SteadyClock::now() + kGrace;
  }

  /// Whatever the other threads do.
  [[noreturn]] void end() {
    line_.clear();
    fmt::print(stderr, "error: interrupted\n");
    std::fflush(stderr);
    remove_temporaries();
    ::_exit(static_cast<int>(ExitCode::interrupted));
  }

  const sigset_t signals_;
  ProgressLine line_;
  UnderWay under_way_;
  std::optional<SteadyClock::time_point> listens_until_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

std::shared_ptr<void> watch(std::string command, ProgressShown shown) {
  return std::make_shared<Watch>(std::move(command), shown);
}

InterruptGuard::InterruptGuard(OnInterrupt how) : how_(how) {
  ++guards;
  if (how_ == OnInterrupt::ends_by_itself) ++ending_by_themselves;
}

InterruptGuard::~InterruptGuard() {
  if (how_ == OnInterrupt::ends_by_itself) --ending_by_themselves;
  --guards;
}

std::stop_token InterruptGuard::token() const { return stop_of_all.get_token(); }

}  // namespace tandem::tools
