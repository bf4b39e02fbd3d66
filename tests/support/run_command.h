#pragma once
// Runs a program as a script would, but with no shell between: arguments are passed as they are.
//
//   const Ran ran = run_command({"/usr/bin/env", "true"});
//   EXPECT_EQ(ran.code, 0);

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem::testing {

struct Ran {
  int code = -1;  // as a shell says it: 128 + signal for what a signal ended
  std::string out, err;
  bool timed_out = false;
  std::int64_t peak_bytes = 0;  // of resident memory
  double processor_s = 0;       // in it and in the system, on all cores
};

struct RunOptions {
  std::filesystem::path folder;               // to run in; empty: this one
  std::chrono::milliseconds timeout{60'000};  // then it is killed
  std::string out_to, err_to;  // a file to write to instead of capturing; "-": closed
  /// Asked again and again, with what was printed so far; from the first true on, `signal` is sent
  /// `interrupts` times, a pause between.
  std::function<bool(const Ran& so_far)> interrupt_when;
  int interrupts = 1, signal = SIGINT;
};

/// A folder that is gone, with what is in it, at the end of its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

namespace run_command_details {

using Clock = std::chrono::steady_clock;

/// In the child, up to exec: only what is safe after a fork.
[[noreturn]] inline void become(const std::vector<std::string>& command, const RunOptions& options,
                                const std::array<int, 2>& pipes) {
  // A test in the background of a script is started with interrupts ignored.
  std::signal(SIGINT, SIG_DFL);
  const auto redirect = [](int stream, const std::string& target, int pipe) {
    if (target == "-") {
      ::close(stream);
    } else {
      ::dup2(target.empty() ? pipe : ::open(target.c_str(), O_WRONLY), stream);
    }
  };
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  redirect(STDOUT_FILENO, options.out_to, pipes[0]);
  redirect(STDERR_FILENO, options.err_to, pipes[1]);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

/// Reads what is there. False: the other side is closed, or nothing came.
inline bool take(int pipe, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t size = ::read(pipe, buffer.data(), buffer.size());
  if (size > 0) text.append(buffer.data(), static_cast<std::size_t>(size));
  return size > 0;
}

class Child {
 public:
  Child(const std::vector<std::string>& command, const RunOptions& options) : options_(options) {
    std::array<std::array<int, 2>, 2> pipes{};
    for (auto& pipe : pipes) {
      if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    }
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error("no fork");
    if (id_ == 0) become(command, options, {pipes[0][1], pipes[1][1]});
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      ::close(pipes[i][1]);
      ::fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
      ends_[i] = pipes[i][0];
    }
  }
  ~Child() {
    for (const int end : ends_) ::close(end);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Ran wait() {
    int status = 0;
    rusage usage{};
    while (::wait4(id_, &status, WNOHANG, &usage) == 0) {
      pass();
      if (!ran_.timed_out && Clock::now() - start_ > options_.timeout) {
        ran_.timed_out = true;
        ::kill(id_, SIGKILL);
      }
      interrupt();
    }
    drain();
    ran_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ran_.peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
    ran_.processor_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    return std::move(ran_);
  }

 private:
  static double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }

  /// Some milliseconds, or less when something is printed.
  void pass() {
    constexpr int kMilliseconds = 5;
    std::array<pollfd, 2> waiting{{{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}}};
    ::poll(waiting.data(), waiting.size(), kMilliseconds);
    const bool any = drain();
    // A pipe whose other side is closed is always ready.
    if (!any) ::usleep(1000 * kMilliseconds);
  }

  void interrupt() {
    constexpr std::chrono::milliseconds kPause{300};
    if (interrupts_ == options_.interrupts || !options_.interrupt_when) return;
    if (interrupts_ == 0 ? !options_.interrupt_when(ran_) : Clock::now() < next_) return;
    ::kill(id_, options_.signal);
    ++interrupts_;
    next_ = Clock::now() + kPause;
  }

  bool drain() {
    bool any = false;
    while (take(ends_[0], ran_.out)) any = true;
    while (take(ends_[1], ran_.err)) any = true;
    return any;
  }

  const RunOptions& options_;
  const Clock::time_point start_ = Clock::now();
  pid_t id_ = -1;
  std::array<int, 2> ends_{-1, -1};
  Ran ran_;
  int interrupts_ = 0;
  Clock::time_point next_;
};

}  // namespace run_command_details

inline Ran run_command(const std::vector<std::string>& command, const RunOptions& options = {}) {
  return run_command_details::Child(command, options).wait();
}

}  // namespace tandem::testing
