#pragma once
// A page of what memory, devices and money buy: the best plans within less of each.

#include <string>
#include <vector>

#include "planner/cluster/cluster_search.h"

namespace tandem::tools {

/// HTML of one file, without scripts: a picture and a table of each, and a third picture of their
/// prices where all have one. Each list begins with the answer's best plan.
std::string trade_off_page(const ClusterQuestion& question, const ClusterAnswer& answer,
                           const std::vector<ClusterCandidate>& by_memory,
                           const std::vector<ClusterCandidate>& by_devices);

}  // namespace tandem::tools
