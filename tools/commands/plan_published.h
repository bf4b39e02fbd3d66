#pragma once
// `tandem plan --planner`: published planners beside ours.

#include <string>

#include "tools/cli/options.h"

namespace tandem::tools {

/// "pipedream (SOSP 2019: …), 2bw (…)", for help.
std::string published_names();
/// Of a model on a cluster.
int run_published_planners(const Options& options);

}  // namespace tandem::tools
