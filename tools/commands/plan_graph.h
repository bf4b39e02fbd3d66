#pragma once
// `tandem plan --graph`: published planners on profiled graphs.

#include "tools/cli/options.h"

namespace tandem::tools {

void add_graph_plan_options(Options& options);
int run_plan_of_graph(const Options& options);

}  // namespace tandem::tools
