#pragma once
// `tandem plan` of a model on a cluster, with nothing measured here.

#include "tools/cli/options.h"

namespace tandem::tools {

/// The options that only this half of `plan` takes.
void add_cluster_plan_options(Options& options);
/// Throws UsageError where an option is given that belongs to the other half.
int run_plan_on_cluster(const Options& options);

}  // namespace tandem::tools
