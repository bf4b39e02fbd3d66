#pragma once
// The formats of other programs that plans are written in: a row each.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/plan.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// What is written.
struct ExportedPlan {
  const Plan& plan;
  const Schedule& schedule;  // the plan's
  std::string file;          // of the plan, for comments
};

/// Something of a plan that an engine can't do.
struct ExportObstacle {
  std::string reason;  // "its schedule has a weight version more: …"
  /// The option of `tandem plan` that would have made a plan without it: {"cut", "blocks"}. Several
  /// values stand for any of them; empty: none would.
  std::string flag = {};
  std::vector<std::string> values = {};
};

struct Exporter {
  std::string_view name;  // of export --to
  std::string_view help;
  /// Empty: it can do the plan as it is.
  std::vector<ExportObstacle> (*obstacles)(const ExportedPlan&);
  /// REQUIRES: there are no obstacles.
  std::string (*text)(const ExportedPlan&);
};

std::span<const Exporter> exporters();
/// REQUIRES: one of those.
const Exporter& find_exporter(std::string_view name);

}  // namespace tandem
