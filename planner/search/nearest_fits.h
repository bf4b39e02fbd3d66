#pragma once
// What fits near to a plan that doesn't, judged by memory alone: on a cluster, as plan_on_cluster()
// makes it, or as the executors hold it on devices of one size. One search for both (fit_search.h).

#include <cstdint>
#include <functional>
#include <vector>

#include "core/memory/storage.h"
#include "core/model/cluster.h"
#include "core/model/plan.h"
#include "planner/search/stage_memory.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

/// What a plan is made by.
struct FitRequest {
  Plan plan;
  AnalyticAssumptions assumptions = {};
  DeviceOrder order = DeviceOrder::replicas_first;
  StageCut cut = StageCut::balanced;
  std::size_t nodes = 0;  // of the cluster
};

/// What may be changed, the mildest first.
enum class FitChange : std::uint8_t {
  extra_in_flight,  // none
  cut,              // balanced
  zero,             // the optimizer's state shared out
  microbatch_size,  // smaller, of as large a batch
  slices,           // 2, 4, 8 or 16 of each sequence, by the schedule's own kind of slices
  schedule,         // 1f1b
  group,            // gpipe drained more often
  recompute,        // selective, or full
  depth,            // deeper pipelines; on a cluster fewer, of as many devices
  tensor,           // layers shared by 2, 4 or 8 devices of a node, in fewer pipelines
  global_batch,     // fewer microbatches
  nodes,            // more of them, in as many pipelines, which are deeper
};
inline constexpr std::size_t kFitChanges = 12;

struct NearFit {
  FitRequest request;              // on a cluster without stages, but where the cut is given
  std::vector<FitChange> changes;  // ascending
  DeviceId fullest{};
  Bytes peak_bytes = 0;  // there
};

/// The same cluster of another number of nodes.
using ClusterOfNodes = std::function<Cluster(std::size_t nodes)>;

/// At most six that fit, of up to three changes each: those with the fewest first, then those that
/// change least. None of them changes all that another one does, as much or more. They keep the
/// batch's samples unless they say otherwise, and the number of devices in use where these can be
/// shared out so. A change that alone saves nothing is in none. Empty: none fits.
/// `of_nodes`: empty where more nodes are no way out.
std::vector<NearFit> nearest_fits(const FitRequest& request, const Cluster& cluster,
                                  const ClusterOfNodes& of_nodes = {});

/// The same for a plan as it stands, on devices that each have `limit`: its own cut, or the one of
/// least memory, which each says; deeper pipelines, up to twice as deep, take more devices. None
/// where stages have several replicas in a pipeline, or the schedule is a user's.
std::vector<NearFit> nearest_fits(const Plan& plan, Bytes limit, Storage storage = Storage::f32);

}  // namespace tandem
