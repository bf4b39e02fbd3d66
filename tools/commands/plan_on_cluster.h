#pragma once
// `tandem plan` of a model on a cluster, with nothing measured here.

#include "planner/cluster/cluster_search.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// The options that only this half of `plan` takes.
void add_cluster_plan_options(Options& options);
/// Throws UsageError where an option is given that belongs to the other half.
int run_plan_on_cluster(const Options& options);

/// One plan of an answer to it, with the command that simulates it.
Json candidate_json(const Options& options, const ClusterCandidate& of);
Json cluster_config(const Options& options, const ClusterQuestion& question);
Json cluster_assumptions(const ClusterQuestion& question);

}  // namespace tandem::tools
