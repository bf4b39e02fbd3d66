#pragma once
// Words for what more of a cluster would be worth, and for what the next best plan loses.

#include <string>
#include <vector>

#include "planner/cluster/marginal_gains.h"

namespace tandem::tools {

/// "The best computes 0.5 s of a step on its busiest device ...". REQUIRES: the answer has a plan.
std::vector<std::string> loss_in_words(const ClusterAnswer& answer);

/// A line each, beside the best plan of the cluster as it is.
std::string gains_text(const ClusterQuestion& question, const ClusterCandidate& best,
                       const std::vector<MarginalGain>& gains);

}  // namespace tandem::tools
