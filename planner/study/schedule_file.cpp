#include "planner/study/schedule_file.h"

#include <algorithm>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/notation/notation.h"
#include "core/schedule/user_schedule.h"
#include "core/text/files.h"
#include "core/verify/verify.h"

namespace tandem {

static std::string text_of(const std::string& path) {
  constexpr std::size_t kLargest = 64u << 20u;
  return read_file(path, kLargest);
}

Schedule read_schedule(const std::string& path) {
  const std::string text = text_of(path);
  if (const Importer* importer = importer_of<ReadSchedule>(text))
    return std::get<ReadSchedule>(importer->read)(text, path);
  return parse_schedule(text, path);
}

Schedule read_schedule_as(const Importer& importer, const std::string& path) {
  return std::get<ReadSchedule>(importer.read)(text_of(path), path);
}

void check_right(const Schedule& schedule, const Program& program) {
  constexpr std::size_t kMostShown = 20;
  const std::vector<Violation> violations = verify(program);
  if (violations.empty()) return;
  std::string text = fmt::format("schedule \"{}\" is wrong:", program.schedule());
  for (std::size_t i = 0; i < std::min(violations.size(), kMostShown); ++i) {
    const Violation& violation = violations[i];
    text += fmt::format("\n  {}: {}{}", name(violation.kind), violation.message,
                        marked_in_order(schedule, program[violation.instruction].op));
  }
  if (violations.size() > kMostShown)
    text += fmt::format("\n  and {} more", violations.size() - kMostShown);
  throw InfeasibleError(text);
}

void check_trained(const Schedule& schedule) {
  if (const auto reason = reason_not_trained(schedule))
    throw InputError(fmt::format("schedule \"{}\" can't be trained: {}", schedule.name, *reason));
}

}  // namespace tandem
