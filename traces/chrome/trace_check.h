#pragma once
// check_trace(): would the viewers show all of this trace, each event where it belongs? Each
// problem says which rule is broken and what a viewer does then.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "traces/chrome/trace_source.h"

namespace tandem {

/// Whether a problem makes the trace a bad one.
enum class TraceSeverity : std::uint8_t {
  error,    // a viewer drops or misplaces something, or the trace breaks a promise of ours
  warning,  // a foreign trace departs from our dialect, and viewers cope
};

/// A rule that is broken, and where.
struct TraceProblem {
  TraceSeverity severity = TraceSeverity::error;
  std::int64_t event = -1;  // position in the array of events; −1: the file as a whole
  std::string message;
  friend bool operator==(const TraceProblem&, const TraceProblem&) = default;
};

/// How much a trace holds.
struct TraceSummary {
  std::int64_t events = 0;
  std::int64_t slices = 0;    // complete events, and pairs of begin and end
  std::int64_t flows = 0;     // arrows with both ends
  std::int64_t counters = 0;  // samples
  std::int64_t instants = 0;
  std::int64_t asynchronous = 0;
  std::int64_t metadata = 0;
  std::int64_t others = 0;  // of phases that are not checked
  std::int64_t lanes = 0;   // (pid, tid) with slices
  std::int64_t processes = 0;
  std::int64_t tracks = 0;   // of counters
  Duration first{}, last{};  // of the slices
};

/// What check_trace() found.
struct TraceCheck {
  bool ours = false;  // tandem wrote it: every departure from the dialect is an error
  TraceSummary summary;
  std::vector<TraceProblem> problems;     // at most kMostTraceProblems, in the order of the file
  std::int64_t errors = 0, warnings = 0;  // all of them
  bool good() const { return errors == 0; }
};
inline constexpr std::size_t kMostTraceProblems = 100;

/// Checks a trace of any tool, `.json` or `.json.gz`. What is not JSON is a problem, with its line
/// and column; a file that can't be read throws InputError.
TraceCheck check_trace(const TraceSource& source);

/// For people: the problems, then what the trace holds.
std::string print_trace_check(const TraceCheck& check, const std::string& name);

}  // namespace tandem
