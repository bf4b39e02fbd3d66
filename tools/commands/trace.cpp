// tandem trace check FILE.

#include <fmt/format.h>

#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "traces/chrome/trace_check.h"

namespace tandem::tools {

Options options_of_trace() {
  Options options("trace", "check FILE [--json]",
                  "Checks a Chrome trace: nesting, unique lanes, paired flows, monotone counters.");
  options.words("check FILE", 2, 2).first_word({"check"});
  return options;
}

int run_trace(const Options& options) {
  if (options.words()[0] != "check") {
    refuse(options, "unknown action \"{}\"{}", options.words()[0],
           did_you_mean(options.words()[0], {"check"}));
  }
  const std::string& path = options.words()[1];
  const TraceCheck check = check_trace({path});
  if (options.has("json")) {
    const auto problem_json = [](const TraceProblem& problem) -> Json {
      return {{"severity", problem.severity == TraceSeverity::error ? "error" : "warning"},
              {"event", problem.event},
              {"message", problem.message}};
    };
    const TraceSummary& summary = check.summary;
    print_result("trace check", {{"file", path}}, Json::object(),
                 {{"good", check.good()},
                  {"errors", check.errors},
                  {"warnings", check.warnings},
                  {"events", summary.events},
                  {"slices", summary.slices},
                  {"flows", summary.flows},
                  {"counters", summary.counters},
                  {"lanes", summary.lanes},
                  {"problems", array_of(check.problems, problem_json)}});
  } else {
    fmt::print("{}", print_trace_check(check, path));
  }
  return static_cast<int>(check.good() ? ExitCode::done : ExitCode::differences);
}

}  // namespace tandem::tools
