#pragma once
// Ctrl-C: work ends in good order, files are closed properly, the exit code is 130. And what
// a command says on the terminal of work that takes long.

#include <memory>
#include <span>
#include <stop_token>
#include <string>

namespace tandem::tools {

enum class ProgressShown : bool {
  on_terminals,
  anywhere,  // where stderr is no terminal, in lines
};

/// From now on a signal that ends the process takes the files along that are not yet whole
/// (core/text/temporaries.h). What whoever started us wants ignored stays ignored.
void remove_temporaries_when_killed();

/// From now on memory that runs out where nobody can be told, as in a destructor, ends the process
/// with the message and exit code of any other place. `arguments`: whether one is --json.
void explain_lost_memory(std::span<char* const> arguments);

/// From now on a file that becomes shorter while it is mapped ends the process with a message and
/// exit code 1. REQUIRES: after explain_lost_memory(), which knows of --json.
void explain_lost_mappings();

/// One for the process, called before any other thread is made, which inherits its signal mask.
/// Until what it returns is gone, SIGINT and SIGTERM do not kill: the first one makes keep_going()
/// throw (core/base/progress.h); where nothing asks it within a second the process ends all the
/// same, but for files half-written. A second one kills. What is under way is shown on a terminal
/// after two seconds; elsewhere, if `shown` says so, a line each ten seconds.
[[nodiscard]] std::shared_ptr<void> watch(std::string command, ProgressShown shown);

enum class OnInterrupt : bool {
  ends_at_next_step,  // keep_going() throws
  ends_by_itself,     // only the token tells
};

/// While it lives, a stop asked for ends work in good order, however long that takes.
class InterruptGuard {
 public:
  explicit InterruptGuard(OnInterrupt how);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  std::stop_token token() const;

 private:
  OnInterrupt how_;
};

}  // namespace tandem::tools
