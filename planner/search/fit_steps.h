#pragma once
// How a plan may be changed to need less memory.

#include "planner/search/fit_search.h"

namespace tandem {

std::int64_t batch_of(const Plan& plan);

/// What any plan may change: no extra in flight, smaller microbatches, 1f1b, GPipe drained more
/// often, recomputation, a smaller batch.
FitSteps plain_steps(const FitRequest& request);

/// Pipelines of `least` to `most` stages, of each number that the plan's divides, or of any.
std::vector<FitStep> deeper_pipelines(const Plan& plan, std::size_t most, bool only_multiples);

/// Those, and what a cluster offers. `most_nodes`: that it may have; 0: as many as it has.
FitSteps cluster_steps(const FitRequest& request, const Cluster& cluster, std::size_t most_nodes);

}  // namespace tandem
