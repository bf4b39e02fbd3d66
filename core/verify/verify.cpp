#include "core/verify/verify.h"

#include <string_view>

#include "core/base/progress.h"
#include "core/verify/checkers.h"

namespace tandem {

std::string_view name(ViolationKind kind) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"missing_op", "duplicate_op", "missing_transfer", "missing_wait", "wrong_version",
       "version_overwritten", "slot_overwritten", "deadlock", "malformed"});
  return kNames[static_cast<std::size_t>(kind)];
}

/// With no slots given they are counted, once the program is known to be whole.
static std::vector<Violation> violations_of(const Program& program, const SlotCounts* given) {
  const Activity progress("verifying the program");
  verification::Report report;
  if (!verification::check_shape(program, report)) return report.take();
  if (given != nullptr && !verification::check_sizes(program, *given, report)) return report.take();
  const bool ordered = verification::check_order(program, report);
  const verification::Facts facts(program, report);
  verification::check_lanes(facts, report);
  verification::check_completeness(facts, report);
  if (!ordered) return report.take();
  keep_going();
  verification::Order order(program);
  SlotCounts slots;
  const verification::Checker checker{facts, order, slots, report};
  verification::check_dependencies(checker);
  if (given == nullptr && !report.empty()) return report.take();
  slots = given != nullptr ? *given : count_slots(program);
  verification::check_versions(checker);
  keep_going();
  verification::check_post_validation(checker);
  verification::check_slots(checker);
  return report.take();
}

std::vector<Violation> verify(const Program& program, const SlotCounts& slots) {
  return violations_of(program, &slots);
}

std::vector<Violation> verify(const Program& program) { return violations_of(program, nullptr); }

}  // namespace tandem
