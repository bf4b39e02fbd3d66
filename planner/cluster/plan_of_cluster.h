#pragma once
// Plans of clusters as files hold them: from what the search found, and back to what is simulated.

#include <memory>
#include <string>

#include "core/model/plan.h"
#include "core/model/tensor_degrees.h"
#include "planner/cluster/cluster_search.h"
#include "planner/cluster/cluster_setup.h"

namespace tandem {

/// All that the candidate's times and bytes follow from, but for the name of the profile: its
/// request measures by that. `bound_s`: no plan that was searched takes less; 0: nobody knows.
Plan plan_for_file(const ClusterCandidate& candidate, double bound_s);

/// Asks set_up_on_cluster() for the plan of a file and nothing else: the same stages, batches and
/// prices. `measured`: the plan's profile; null: it names none. REQUIRES: plan.cluster.
ClusterRequest cluster_request(const Plan& plan, std::shared_ptr<const TensorProfiles> measured);

/// Asks for a plan of the same model, cluster, batch, shape, recomputation and schedule, cut anew.
/// REQUIRES: plan.cluster; `measured` as above.
ClusterQuestion question_like(const Plan& plan, std::shared_ptr<const TensorProfiles> measured);

/// Why `tandem train` can't train a plan of a cluster; empty: it can. REQUIRES: plan.cluster.
std::string why_not_trained_here(const Plan& plan);

}  // namespace tandem
