#pragma once
// Plans on a cluster near to one that doesn't fit there, as plan_on_cluster() makes them.

#include <cstdint>
#include <vector>

#include "core/cluster.h"
#include "core/plan.h"
#include "planner/cluster_plan.h"

namespace tandem {

/// What a plan on a cluster is made by.
struct ClusterRequest {
  Plan plan;
  AnalyticAssumptions assumptions;
  DeviceOrder order = DeviceOrder::replicas_first;
  StageCut cut = StageCut::balanced;
};

/// What may be changed, the mildest first.
enum class ClusterChange : std::uint8_t {
  extra_in_flight,  // none
  cut,              // balanced
  zero,             // the optimizer's state shared out
  microbatch_size,  // smaller, of as large a batch
  schedule,         // 1f1b
  group,            // gpipe drained more often
  recompute,        // selective, or full
  depth,            // as many devices in fewer, deeper pipelines
  tensor,           // layers shared by 2, 4 or 8 devices of a node, in fewer pipelines
  global_batch,     // fewer microbatches
};
inline constexpr std::size_t kClusterChanges = 10;

struct ClusterAlternative {
  ClusterRequest request;              // its plan has no stages
  std::vector<ClusterChange> changes;  // ascending
  DeviceId fullest{};
  Bytes peak_bytes = 0;  // there
};

/// At most six that fit, of up to three changes each: those with the fewest first, then those that
/// change least. None of them changes all that another one does, as much or more. They keep the
/// batch's samples unless they say otherwise, and the number of devices in use where these can be
/// shared out so. A change that alone saves nothing is in none. Empty: none fits.
std::vector<ClusterAlternative> nearest_cluster_fits(const ClusterRequest& request,
                                                     const Cluster& cluster);

}  // namespace tandem
