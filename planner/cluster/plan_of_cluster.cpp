#include "planner/cluster/plan_of_cluster.h"

#include <utility>

#include <fmt/format.h>

#include "core/files/plan_cluster.h"
#include "planner/search/fit_search.h"

namespace tandem {

Plan plan_for_file(const ClusterCandidate& candidate, double bound_s) {
  const ClusterRequest& request = candidate.request;
  PlanCluster on{.cluster = request.cluster->spec(),
                 .name = request.cluster_name,
                 .assumptions = request.assumptions,
                 .calibration = request.calibration,
                 .order = request.order,
                 .blocking_transfers = request.blocking_transfers,
                 .contention = candidate.contention};
  on.assumptions.measured = nullptr;
  Plan plan = candidate.plan;
  plan.predicted.bound_s = bound_s;
  plan.cluster = std::make_shared<const PlanCluster>(std::move(on));
  return plan;
}

ClusterRequest cluster_request(const Plan& plan, std::shared_ptr<const TensorProfiles> measured) {
  const PlanCluster& on = *plan.cluster;
  ClusterRequest request{.plan = plan};
  request.cluster = std::make_shared<const Cluster>(on.cluster);
  request.cluster_name = on.name;
  request.assumptions = on.assumptions;
  request.assumptions.measured = std::move(measured);
  request.calibration = on.calibration;
  request.order = on.order;
  request.cut = StageCut::given;
  request.depth = plan.request.devices;
  request.width = plan.request.width;
  request.microbatches = plan.request.microbatches;
  request.blocking_transfers = on.blocking_transfers;
  return request;
}

ClusterQuestion question_like(const Plan& plan, std::shared_ptr<const TensorProfiles> measured) {
  ClusterQuestion question{.base = cluster_request(plan, std::move(measured))};
  question.base.plan.stages.clear();
  question.base.cut = StageCut::balanced;
  question.base.microbatches.reset();
  question.global_batch = batch_of(plan);
  question.schedules = {plan.schedule};
  question.tensor = plan.cluster->assumptions.tensor;
  question.depth = plan.request.devices;
  question.width = plan.request.width;
  question.microbatch_size = plan.microbatch_size;
  question.recompute = plan.request.recompute;
  question.sharded_optimizer = plan.cluster->assumptions.sharded_optimizer;
  question.order = plan.cluster->order;
  question.given_node_order = true;
  question.contention = plan.cluster->contention;
  return question;
}

std::string why_not_trained_here(const Plan& plan) {
  const AnalyticAssumptions& assumptions = plan.cluster->assumptions;
  if (assumptions.tensor > 1) {
    return fmt::format("its tensor degree is {}: each device trains whole layers here",
                       assumptions.tensor);
  }
  if (assumptions.sharded_optimizer)
    return "its replicas shard the optimizer's state (ZeRO-1): here each keeps all of its own";
  if (std::string reason = why_untrainable(plan.model); !reason.empty())
    return fmt::format("its model, {}, {}", plan.model.name, reason);
  return {};
}

}  // namespace tandem
