#include "traces/chrome/trace_problems.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "core/text/count_text.h"

namespace tandem {

void TraceProblems::add(TraceProblem problem) {
  problems_.push_back(std::move(problem));
  if (problems_.size() > 4 * kMostTraceProblems) trim();
}

void TraceProblems::trim() {
  std::size_t errors = 0, warnings = 0;
  std::vector<TraceProblem> kept;
  for (TraceProblem& problem : problems_) {
    const bool is_error = problem.severity == TraceSeverity::error;
    if (++(is_error ? errors : warnings) <= kMostTraceProblems) {
      kept.push_back(std::move(problem));
    } else {
      ++(is_error ? dropped_errors_ : dropped_warnings_);
    }
  }
  problems_ = std::move(kept);
}

void TraceProblems::settle(TraceCheck& check) {
  trim();
  check.errors = dropped_errors_;
  check.warnings = dropped_warnings_;
  for (TraceProblem& problem : problems_) {
    if (check.ours) problem.severity = TraceSeverity::error;
    ++(problem.severity == TraceSeverity::error ? check.errors : check.warnings);
  }
  if (check.ours) check.errors += std::exchange(check.warnings, 0);
  // When not all can be kept, errors stay.
  std::sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.severity, a.event, a.message) < std::tie(b.severity, b.event, b.message);
  });
  if (problems_.size() > kMostTraceProblems) problems_.resize(kMostTraceProblems);
  std::sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.event, a.message) < std::tie(b.event, b.message);
  });
  check.problems = std::move(problems_);
}

std::string print_trace_check(const TraceCheck& check, const std::string& name) {
  std::string text;
  for (const TraceProblem& problem : check.problems) {
    const bool is_error = problem.severity == TraceSeverity::error;
    const std::string place = problem.event < 0 ? "" : fmt::format("event {}: ", problem.event);
    text +=
        fmt::format("{}: {}: {}{}\n", name, is_error ? "error" : "warning", place, problem.message);
  }
  const std::int64_t hidden =
      check.errors + check.warnings - static_cast<std::int64_t>(check.problems.size());
  if (hidden > 0) text += fmt::format("{}: and {} more\n", name, hidden);
  const TraceSummary& all = check.summary;
  text += fmt::format("{}: {}: {} on {} of {}, {}, ", name, counted(all.events, "event"),
                      counted(all.slices, "slice"), counted(all.lanes, "lane"),
                      counted(all.processes, "process"), counted(all.flows, "flow"));
  text += fmt::format("{} on {}; spans {}\n", counted(all.counters, "counter sample"),
                      counted(all.tracks, "track"), print_duration(all.last - all.first));
  text += check.good() ? "good" : counted(check.errors, "error");
  if (check.warnings > 0) text += ", " + counted(check.warnings, "warning");
  return text + "\n";
}

}  // namespace tandem
