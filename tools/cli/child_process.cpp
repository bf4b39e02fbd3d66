#include "tools/cli/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem::tools {

namespace {

using Pipe = std::array<int, 2>;

[[noreturn]] void fail_to_start(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

Pipe open_pipe() {
  Pipe pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) fail_to_start("a pipe to another process");
  return pipe;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// What the child is to become, made before the fork: behind it, other threads may hold any lock.
struct Becoming {
  std::vector<char*> arguments, environment;
  int input, output;  // its streams; −1: nothing to read, what we have
  bool on_stderr;
  pid_t parent;
  std::string complaint;
};

[[noreturn]] void become(const Becoming& what) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != what.parent) ::_exit(127);  // who started us was gone before that
  ::setpgid(0, 0);
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) ::sigaction(signal, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(what.input >= 0 ? what.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  if (what.output >= 0) ::dup2(what.output, STDERR_FILENO);
  if (what.output >= 0 || what.on_stderr) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execvpe(what.arguments[0], what.arguments.data(), what.environment.data());
  [[maybe_unused]] const ssize_t ignored =
      ::write(STDERR_FILENO, what.complaint.data(), what.complaint.size());
  ::_exit(127);
}

}  // namespace

std::vector<std::string> environment_with(std::vector<std::string> variables) {
  const std::vector<std::string> own = variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto same = [&](const std::string& given) {
      return text.starts_with(given.substr(0, given.find('=') + 1));
    };
    if (std::ranges::none_of(own, same)) variables.emplace_back(text);
  }
  return variables;
}

ChildProcess::ChildProcess(const ChildSetup& setup) {
  Pipe in{-1, -1}, out{-1, -1};
  if (setup.input) in = open_pipe();
  input_ = in[1];
  const bool taken = setup.output == ChildSetup::Output::taken;
  try {
    if (taken) out = open_pipe();
    const Becoming what{.arguments = pointers_to(setup.command),
                        .environment = pointers_to(setup.environment),
                        .input = in[0],
                        .output = out[1],
                        .on_stderr = setup.output == ChildSetup::Output::on_stderr,
                        .parent = ::getpid(),
                        .complaint = "error: cannot start " + setup.command[0] + "\n"};
    output_ = out[0];
    id_ = ::fork();
    if (id_ == 0) become(what);
    if (id_ < 0) fail_to_start("another process");
  } catch (...) {
    for (const int end : {in[0], out[1]}) {
      if (end >= 0) ::close(end);
    }
    close_all();
    throw;
  }
  ::setpgid(id_, id_);  // whoever comes first: it must be so before we signal
  for (const int end : {in[0], out[1]}) {
    if (end >= 0) ::close(end);
  }
  if (output_ >= 0) ::fcntl(output_, F_SETFL, O_NONBLOCK);
  // Absent before Linux 5.3: then whoever polls looks at status() now and then.
  end_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
  if (setup.input) tell(*setup.input);
}

ChildProcess::~ChildProcess() {
  if (!status_) {
    ::kill(-id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  close_all();
}

void ChildProcess::close_all() {
  for (int* const end : {&end_, &output_, &input_}) {
    if (*end >= 0) ::close(*end);
    *end = -1;
  }
}

std::optional<int> ChildProcess::status() {
  if (status_) return status_;
  siginfo_t ended{};
  if (::waitid(P_PID, static_cast<id_t>(id_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      ended.si_pid == 0)
    return std::nullopt;
  // What it has left behind: while it is not waited for, nobody else has its number.
  ::kill(-id_, SIGKILL);
  int status = 0;
  ::waitpid(id_, &status, 0);
  status_ = status;
  return status_;
}

std::optional<int> ChildProcess::stopped_by() const {
  siginfo_t stopped{};
  if (status_ ||
      ::waitid(P_PID, static_cast<id_t>(id_), &stopped, WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
      stopped.si_pid == 0)
    return std::nullopt;
  return stopped.si_status;
}

void ChildProcess::signal(int number) const { ::kill(-id_, number); }

void ChildProcess::tell(const std::string& text) const {
  // Fewer bytes than any pipe holds. One that nobody reads any more is no matter: it has ended.
  sigset_t broken, before;
  ::sigemptyset(&broken);
  ::sigaddset(&broken, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken, &before);
  [[maybe_unused]] const ssize_t ignored = ::write(input_, text.data(), text.size());
  constexpr timespec kAtOnce{};
  ::sigtimedwait(&broken, nullptr, &kAtOnce);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ChildProcess::take_output(std::string& text) {
  std::array<char, 65536> buffer{};
  while (output_ >= 0) {
    const ssize_t size = ::read(output_, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
      ::close(output_);
      output_ = -1;
      return;
    }
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace tandem::tools
