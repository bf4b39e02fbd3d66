#pragma once
// `tandem plan --beside`: the configurations that somebody runs with, beside the best plan.

#include <functional>
#include <string>
#include <vector>

#include "planner/cluster/set_beside.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"

namespace tandem::tools {

struct SetBeside {
  std::string given;  // the file, or its text
  ClusterCandidate made;
  std::vector<FreedPlan> changes = {};
  bool fits() const { return made.least_room >= 0; }
};

/// Of --beside, simulated; what one change of each would bring is empty yet. Throws UsageError,
/// InputError.
std::vector<SetBeside> set_beside_of(const Options& options, const ClusterQuestion& question);

/// "beside" of the JSON; sentences and a table. REQUIRES: the answer has a plan.
Json beside_json(const Options& options, const std::vector<SetBeside>& all,
                 const ClusterAnswer& answer);
std::string beside_text(const ClusterAnswer& answer, const SetBeside& one);

}  // namespace tandem::tools
