#include "traces/chrome/trace_problems.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

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
  text += fmt::format("{}: {} events: {} slices on {} lanes of {} processes, {} flows, ", name,
                      all.events, all.slices, all.lanes, all.processes, all.flows);
  text += fmt::format("{} counter samples on {} tracks; spans {}\n", all.counters, all.tracks,
                      print_duration(all.last - all.first));
  text += check.good() ? "good" : fmt::format("{} errors", check.errors);
  if (check.warnings > 0) text += fmt::format(", {} warnings", check.warnings);
  return text + "\n";
}

}  // namespace tandem
