#pragma once
// The errors that end a command. One class for each way a caller reacts: the exit code says which.
//   UsageError → 2, InputError → 3, InfeasibleError → 4, DeviceError → 1, AbsentError → 5,
//   DifferenceError → 6, Interrupted → 130.
// An expected "no" is a return value, never one of these. Our own bugs are TANDEM_CHECK.

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// The exit code of `tandem`; callers of the library tell errors apart by it.
enum class ExitCode : int {
  done = 0,
  failed = 1,
  usage = 2,
  invalid_input = 3,
  infeasible = 4,
  environment = 5,
  differences = 6,
  interrupted = 130,
};

/// Where in a file an error lies. Lines and columns count from 1; 0: not known.
struct SourcePlace {
  std::string file = {};
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string pointer = {};  // JSON pointer, such as /stages/2/layers; empty: the whole document
  std::string source_line = {};  // the text of that line, for the caret
  std::uint32_t width = 1;       // columns that the culprit covers
};

/// One thing wrong with the input, printed as `file:line:column: error: /pointer: message`, line,
/// caret.
struct Diagnostic {
  std::string message = {};
  SourcePlace place = {};
  std::string hint = {};  // printed behind the caret, such as `a half-open range, such as [3, 6]`
  std::string to_string() const;
};

/// The base of all that tandem throws on purpose: catch this to tell such an end from a bug.
class Error : public std::exception {
 public:
  Error(ExitCode code, std::string message) : code_(code), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
  std::string message_;
};

/// One that is all message.
template <ExitCode kCode>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(std::string message) : Error(kCode, std::move(message)) {}
};

/// The command line is wrong: unknown option, missing unit.
using UsageError = ErrorOf<ExitCode::usage>;

/// A file, a schema or a combination is wrong. Holds every diagnostic found, not only the first.
class InputError : public Error {
 public:
  explicit InputError(std::string message);
  explicit InputError(Diagnostic diagnostic);
  explicit InputError(std::vector<Diagnostic> diagnostics);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Sizes that don't go together, such as more pipelines than devices, or a batch that does not
/// divide: refusals that a product of values can't do without.
class ShapeError : public InputError {
 public:
  using InputError::InputError;
};

/// Well-formed, but can't be: does not fit, no plan, a schedule that would deadlock.
using InfeasibleError = ErrorOf<ExitCode::infeasible>;

/// Something failed while running: a device, a peer, the disk.
using DeviceError = ErrorOf<ExitCode::failed>;

/// A device or library is absent: no GPU, built without NCCL.
using AbsentError = ErrorOf<ExitCode::environment>;

/// A check (`compare --fail-over`, `trace check`, `train --verify`) found differences.
using DifferenceError = ErrorOf<ExitCode::differences>;

/// Ctrl-C, after files were closed properly.
using Interrupted = ErrorOf<ExitCode::interrupted>;

/// The candidate nearest to `word` by edit distance, or empty when none is within 2 (and a third of
/// its length).
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// `; did you mean "x"?` or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tandem
