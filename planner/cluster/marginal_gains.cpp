#include "planner/cluster/marginal_gains.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "simulator/cost/stage_costs.h"
#include "simulator/simulate.h"

namespace tandem {

std::string_view name(Supply supply) {
  switch (supply) {
    case Supply::compute:
      return "compute";
    case Supply::memory_rate:
      return "memory rate";
    case Supply::memory:
      return "memory";
    case Supply::links_in_nodes:
      return "links in nodes";
    case Supply::links_between_nodes:
      return "links between nodes";
  }
  return {};
}

/// Of groups that hold devices, or of the others.
static void scale_links(ClusterSpec& spec, bool in_nodes, double times) {
  for (GroupSpec& group : spec.groups) {
    const bool is_node =
        std::ranges::any_of(group.members, [](const auto& of) { return of.device.has_value(); });
    if (is_node != in_nodes) continue;
    for (JointSpec& joint : group.joints) joint.link.bytes_per_s *= times;
  }
}

static void scale_memory(ClusterQuestion& question, ClusterSpec& spec, double times) {
  const auto scaled = [times](Bytes bytes) {
    return static_cast<Bytes>(static_cast<double>(bytes) * times);
  };
  for (DeviceSpec& device : spec.devices) device.memory_bytes = scaled(device.memory_bytes);
  if (question.base.memory) question.base.memory = scaled(*question.base.memory);
}

ClusterQuestion with_more(ClusterQuestion question, Supply supply, double times) {
  TANDEM_CHECK(times > 0.0, times);
  ClusterSpec spec = question.base.cluster->spec();
  switch (supply) {
    case Supply::compute:
      for (DeviceSpec& device : spec.devices) {
        for (double& flops : device.flops_per_s) flops *= times;
      }
      break;
    case Supply::memory_rate:
      for (DeviceSpec& device : spec.devices) device.memory_bytes_per_s *= times;
      break;
    case Supply::memory:
      scale_memory(question, spec, times);
      break;
    case Supply::links_in_nodes:
    case Supply::links_between_nodes:
      scale_links(spec, supply == Supply::links_in_nodes, times);
      break;
  }
  question.base.cluster = std::make_shared<const Cluster>(spec);
  return question;
}

std::vector<MarginalGain> marginal_gains(const ClusterQuestion& question,
                                         const std::function<bool()>& stop) {
  constexpr double kPercentMore = 1.01;
  std::vector<MarginalGain> gains;
  const auto add = [&](Supply supply, double times) {
    if (stop && stop()) return;
    ClusterAnswer answer = find_cluster_plans(with_more(question, supply, times), stop);
    if (answer.ranked.empty()) return;  // stopped before one was found
    gains.push_back({supply, times, std::move(answer.ranked.front()), !answer.interrupted});
  };
  for (const Supply supply : kSupplies) add(supply, kPercentMore);
  add(Supply::memory, kAnyAmount);
  return gains;
}

StepParts parts_of_step(const ClusterCandidate& of) {
  const ClusterSetup setup = set_up_on_cluster(of.request);
  const ClusterPlan& made = setup.made;
  const CostTable prices = price(made.program, cost_model(made.schedule.placement, made.costs));
  const SimulationResult one_batch = simulate(made.program, prices, {.batches = 1});
  Duration most{};
  for (const DeviceUse& use : one_batch.devices) most = std::max(most, use.busy);
  const double computes_s = to_seconds(most);
  return {.computes_s = computes_s, .waits_s = std::max(0.0, of.period_s - computes_s)};
}

bool same_shape(const ClusterCandidate& a, const ClusterCandidate& b) {
  return shape_of(a) == shape_of(b) && a.request.order == b.request.order &&
         a.plan.request.microbatches == b.plan.request.microbatches &&
         a.plan.request.extra_in_flight == b.plan.request.extra_in_flight;
}

}  // namespace tandem
