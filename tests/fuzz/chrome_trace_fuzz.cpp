// Any text as a trace: a timeline or a refusal with a reason, a verdict of the check, never a
// crash. What was read compares with itself without a difference.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/base/error.h"
#include "traces/chrome/timeline_file.h"
#include "traces/chrome/trace_check.h"
#include "traces/compare.h"

namespace tandem {
namespace {

void check_timeline(std::string_view text) {
  TimelineFile file;
  try {
    file = read_timeline({text, "t.json"});
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty());
    return;
  }
  for (const TimelineRun& run : file.runs) {
    const Comparison comparison = compare(run.records, run.records);
    TANDEM_CHECK(comparison.same_ops() && comparison.worst.empty());
    TANDEM_CHECK(!print_comparison(comparison).empty());
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tandem::check_timeline(text);
  const tandem::TraceCheck check = tandem::check_trace({text, "t.json"});
  TANDEM_CHECK(check.problems.size() <= tandem::kMostTraceProblems);
  TANDEM_CHECK(check.good() == (check.errors == 0));
  TANDEM_CHECK(!tandem::print_trace_check(check, "t.json").empty());
  return 0;
}
