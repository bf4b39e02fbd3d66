#pragma once
// A process that we start and that does not outlive us.

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tandem::tools {

/// This process's, but for the given "NAME=VALUE", which replace those of the same name.
std::vector<std::string> environment_with(std::vector<std::string> variables);

struct ChildSetup {
  std::vector<std::string> command;           // a program, looked for in PATH, and its arguments
  std::vector<std::string> environment = {};  // all of it, "NAME=VALUE"
  enum class Output {
    ours,       // stdout and stderr are those of this process
    on_stderr,  // both are this process's stderr
    taken,      // both come out of output()
  };
  Output output = Output::ours;
  std::optional<std::string> input = {};  // written to its stdin, which stays open; empty: none
};

/// In a process group of its own, so that Ctrl-C of a terminal reaches it by us alone. It is killed
/// when the thread that made it ends, however that ends.
class ChildProcess {
 public:
  /// Throws std::system_error where the system starts no more processes.
  explicit ChildProcess(const ChildSetup& setup);
  /// Kills what is left of its group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  /// Descriptors to poll: readable when it has ended, when there is output; −1: none.
  int end() const { return end_; }
  int output() const { return output_; }

  /// What waitpid() says once it has ended; nothing before. Then its group is no more.
  std::optional<int> status();
  /// The signal that it stands still by, or nothing.
  std::optional<int> stopped_by() const;
  /// To its group. REQUIRES: status() was empty.
  void signal(int number) const;
  /// Writes to its stdin.
  void tell(const std::string& text) const;
  /// Adds what is there to `text`.
  void take_output(std::string& text);

 private:
  void close_all();

  pid_t id_ = -1;
  int end_ = -1, output_ = -1, input_ = -1;
  std::optional<int> status_;
};

}  // namespace tandem::tools
