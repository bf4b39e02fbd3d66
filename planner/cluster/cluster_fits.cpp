#include <algorithm>
#include <map>
#include <memory>

#include "planner/cluster/cluster_plan.h"
#include "planner/search/fit_search.h"
#include "planner/search/nearest_fits.h"

namespace tandem {

namespace {

/// Those that were looked at, by their nodes: each is made once, and its ways are found once.
class Clusters {
 public:
  Clusters(const Cluster& known, const ClusterOfNodes& of_nodes) : of_nodes_(of_nodes) {
    all_.emplace(known.nodes(), std::make_shared<ClusterWays>(known));
  }

  const std::shared_ptr<ClusterWays>& of(std::size_t nodes) {
    const auto found = all_.find(nodes);
    if (found != all_.end()) return found->second;
    made_.push_back(std::make_unique<Cluster>(of_nodes_(nodes)));
    return all_.emplace(nodes, std::make_shared<ClusterWays>(*made_.back())).first->second;
  }

 private:
  const ClusterOfNodes& of_nodes_;
  std::map<std::size_t, std::shared_ptr<ClusterWays>> all_;
  std::vector<std::unique_ptr<Cluster>> made_;
};

std::size_t group_of(const FitRequest& request) {
  return std::size_t{request.plan.request.devices} *
         static_cast<std::size_t>(request.assumptions.tensor);
}

bool shape(FitDraft& draft, const Cluster& cluster) {
  Plan& plan = draft.request.plan;
  if (draft.request.cut != StageCut::given) plan.stages.clear();
  plan.request.costs.reset();
  const std::size_t group = group_of(draft.request);
  if (draft.devices % group != 0 && (group < draft.devices || group > cluster.size())) return false;
  plan.request.width = static_cast<std::uint16_t>(std::max<std::size_t>(1, draft.devices / group));
  plan.request.microbatches = microbatches_of(draft.batch, plan);
  return true;
}

Fullest judge(const FitRequest& request, const std::shared_ptr<ClusterWays>& ways) {
  const Plan& plan = request.plan;
  const ClusterLayout layout(ways, plan.request.width, plan.request.devices, request.order,
                             static_cast<std::size_t>(request.assumptions.tensor));
  const ClusterMemory on = memory_on_cluster(plan, layout, request.assumptions, request.cut);
  const DeviceId fullest = fullest_device(on.memory);
  return {.device = fullest, .bytes = on.memory[fullest].total(), .fits = on.fits()};
}

}  // namespace

std::vector<NearFit> nearest_fits(const FitRequest& request, const Cluster& cluster,
                                  const ClusterOfNodes& of_nodes) {
  FitRequest from = request;
  from.nodes = cluster.nodes();
  const std::size_t most_nodes =
      of_nodes ? kMostClusterDevices * cluster.nodes() / cluster.size() : 0;
  Clusters clusters(cluster, of_nodes);
  return search_fits(
      {.from = {.request = from,
                .devices = std::size_t{from.plan.request.width} * group_of(from),
                .batch = batch_of(from.plan)},
       .steps = cluster_steps(from, cluster, most_nodes),
       .shape =
           [&](FitDraft& draft) {
             return shape(draft, clusters.of(draft.request.nodes)->cluster());
           },
       .judge = [&](const FitRequest& one) { return judge(one, clusters.of(one.nodes)); }});
}

}  // namespace tandem
