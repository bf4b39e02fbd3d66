#include "planner/cluster/set_beside.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/files/plan_cluster.h"
#include "core/model/node_order.h"
#include "planner/cluster/plan_period.h"

namespace tandem {

ClusterCandidate simulated_on_cluster(ClusterRequest request, bool contention) {
  ClusterSetup setup = set_up_on_cluster(request);
  const FoundPeriod period =
      contention ? contended_period(setup)
                 : FoundPeriod{.seconds = period_s(setup.made, request.blocking_transfers)};
  return candidate_of(std::move(request), std::move(setup.made), period);
}

/// The question's cluster; where nobody gave the order of its nodes, in that of the plan's, if
/// these are the same.
static std::shared_ptr<const Cluster> in_order_of(const PlanCluster& of,
                                                  const ClusterQuestion& question) {
  const ClusterSpec& spec = question.base.cluster->spec();
  const std::vector<std::string> nodes = node_order(spec), wanted = node_order(of.cluster);
  const bool same = std::ranges::is_permutation(nodes, wanted);
  if (question.given_node_order || nodes == wanted || !same) return question.base.cluster;
  return std::make_shared<const Cluster>(in_node_order(spec, wanted));
}

ClusterRequest request_like(const ClusterQuestion& question, const Plan& plan) {
  const Plan& asked = question.base.plan;
  if (!(plan.model == asked.model)) {
    throw InputError(fmt::format("a plan of {} is set beside plans of {}: expected the same model",
                                 plan.model.name, asked.model.name));
  }
  if (!(plan.optimizer == asked.optimizer)) {
    throw InputError(
        fmt::format("a plan with {} is set beside plans with {}: expected the same optimizer",
                    describe(plan.optimizer), describe(asked.optimizer)));
  }
  if (batch_of(plan) != question.global_batch) {
    throw InputError(
        fmt::format("a plan of batches of {} samples is set beside plans of {}: expected the same",
                    batch_of(plan), question.global_batch));
  }
  ClusterRequest request = question.base;
  request.plan = plan;
  request.plan.cluster = nullptr;
  request.plan.request.global_norm = asked.request.global_norm;
  request.cut = StageCut::given;
  request.depth = plan.request.devices;
  request.width = plan.request.width;
  request.microbatches = std::nullopt;
  request.global_batch = question.global_batch;
  if (plan.cluster) {
    request.cluster = in_order_of(*plan.cluster, question);
    const AnalyticAssumptions& on = plan.cluster->assumptions;
    request.order = plan.cluster->order;
    request.assumptions.tensor = on.tensor;
    request.assumptions.sequence_parallel = on.sequence_parallel;
    request.assumptions.sharded_optimizer = on.sharded_optimizer;
  }
  return request;
}

std::size_t known_faster(const ClusterAnswer& answer, const ClusterCandidate& than) {
  return static_cast<std::size_t>(std::ranges::count_if(
      answer.ranked, [&](const ClusterCandidate& one) { return one.period_s < than.period_s; }));
}

std::string_view name(Freedom freedom) {
  switch (freedom) {
    case Freedom::cut:
      return "the cut";
    case Freedom::schedule:
      return "the schedule";
    case Freedom::microbatch_size:
      return "the microbatch size";
    case Freedom::recomputation:
      return "recomputation";
    case Freedom::sharding:
      return "ZeRO-1 or not";
    case Freedom::layout:
      return "the layout";
  }
  return {};
}

/// All of a configuration is given but what is free.
static ClusterQuestion freed(const ClusterQuestion& question, const ClusterCandidate& of,
                             Freedom freedom) {
  ClusterQuestion asked = question;
  const auto fix = [freedom](auto& member, const auto& value, Freedom unless) {
    if (freedom == unless)
      member = {};
    else
      member = value;
  };
  const ScheduleRequest& request = of.plan.request;
  const AnalyticAssumptions& assumptions = of.request.assumptions;
  fix(asked.schedules, std::vector{of.plan.schedule}, Freedom::schedule);
  if (find_schedule(of.plan.schedule).replicas_per_device == 0)
    fix(asked.chunks, request.chunks, Freedom::schedule);
  fix(asked.microbatch_size, of.plan.microbatch_size, Freedom::microbatch_size);
  fix(asked.recompute, request.recompute, Freedom::recomputation);
  fix(asked.sharded_optimizer, assumptions.sharded_optimizer, Freedom::sharding);
  fix(asked.tensor, assumptions.tensor, Freedom::layout);
  fix(asked.depth, request.devices, Freedom::layout);
  fix(asked.width, request.width, Freedom::layout);
  fix(asked.order, of.request.order, Freedom::layout);
  if (freedom != Freedom::layout) {
    asked.base.cluster = of.request.cluster;
    asked.given_node_order = true;
  }
  asked.vanilla_only = question.vanilla_only || of.weights == WeightSemantics::vanilla;
  return asked;
}

std::vector<FreedPlan> best_by_one_change(const ClusterQuestion& question,
                                          const ClusterCandidate& of,
                                          const std::function<bool()>& stop) {
  constexpr std::array kFreedoms{
      Freedom::cut,           Freedom::schedule, Freedom::microbatch_size,
      Freedom::recomputation, Freedom::sharding, Freedom::layout};
  std::vector<FreedPlan> all;
  for (const Freedom freedom : kFreedoms) {
    if (stop && stop()) break;
    FreedPlan one{.freedom = freedom};
    try {
      ClusterAnswer answer = find_cluster_plans(freed(question, of, freedom), stop);
      one.proved = !answer.interrupted;
      if (!answer.ranked.empty()) one.best = std::move(answer.ranked.front());
    } catch (const InputError&) {
      // Nothing of it can be priced: nothing fits.
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace tandem
