#include "simulator/cost/cluster_network.h"

#include <algorithm>

namespace tandem {

namespace {

class Flows {
 public:
  Flows(const Program& program, const Plan& plan, const ClusterLayout& layout,
        const AnalyticAssumptions& assumptions)
      : placement_(program.placement()),
        plan_(plan),
        layout_(layout),
        assumptions_(assumptions),
        parts_(sequence_parts(plan.request.slices, plan.model)) {
    for (const SequencePart part : parts_) layers_.emplace_back(plan, layout, assumptions, part);
    if (parts_.empty()) layers_.emplace_back(plan, layout, assumptions);
  }

  std::vector<Network::Flow> of(const CostKey& key) const {
    const auto tensor = static_cast<Bytes>(layout_.tensor());
    const Bytes element = bytes_of(assumptions_.format);
    if (moves_stash(key.kind))
      return {transfer(key, tensor * bytes_of_stage(key)[SlotKind::stash])};
    if (is_transfer(key.kind)) {
      const SequencePart part = parts_.empty() ? SequencePart{} : parts_[key.slice];
      Network::Flow flow =
          transfer(key, boundary_bytes(plan_.model, part, plan_.microbatch_size, element));
      if (!assumptions_.sequence_parallel)
        flow.latency += layers_[key.slice].tensor_sum(key.target) / 2;
      return {flow};
    }
    if (traits(key.kind).price == Price::replica_sum) return sum(key);
    return {};
  }

 private:
  StageBytes bytes_of_stage(const CostKey& key) const {
    const StageId stage = placement_.stage[key.replica];
    return analytic_stage_bytes(plan_.model, plan_.stages[index(stage)], plan_.microbatch_size,
                                plan_.optimizer, plan_.request.recompute, assumptions_);
  }

  static void add(Network::Flow& flow, const Route& route) {
    for (const LinkId link : route.links) flow.links.push_back(id_at<Network::LinkId>(index(link)));
  }

  Network::Flow transfer(const CostKey& key, Bytes bytes) const {
    Network::Flow flow{.bytes = bytes / static_cast<Bytes>(layout_.tensor())};
    for (const Route* route : layout_.routes(key.source, key.target)) {
      add(flow, *route);
      flow.latency = std::max(flow.latency, route->latency);
    }
    return flow;
  }

  std::vector<Network::Flow> sum(const CostKey& key) const {
    const StageId stage = placement_.stage[key.replica];
    Network::Flow flow;
    for (std::size_t member = 0; member < layout_.tensor(); ++member) {
      const std::vector<DeviceId> group = layout_.holders(placement_, stage, member);
      const auto rings = layout_.rings(group);
      if (rings.empty()) return {};
      const auto devices = static_cast<std::int64_t>(group.size());
      // Of a sharded optimizer's gradients each device needs its part of the sum alone.
      const std::int64_t ways = optimizer_shards(plan_, assumptions_) > 1 ? 1 : 2;
      const std::int64_t steps = ways * (devices - 1);
      flow.bytes = bytes_of_stage(key)[SlotKind::gradients] / devices * steps /
                   static_cast<std::int64_t>(rings.size());
      for (const ClusterLayout::Routes& ring : rings) {
        for (const Route* route : ring) {
          add(flow, *route);
          flow.latency = std::max(flow.latency, steps * route->latency);
        }
      }
    }
    return {flow};
  }

  const Placement& placement_;
  const Plan& plan_;
  const ClusterLayout& layout_;
  const AnalyticAssumptions& assumptions_;
  const std::vector<SequencePart> parts_;  // empty: whole sequences
  std::vector<ClusterLayers> layers_;      // of each slice
};

}  // namespace

Network cluster_network(const Program& program, const Plan& plan, const ClusterLayout& layout,
                        const AnalyticAssumptions& assumptions) {
  Network network;
  const Calibration constants = constants_of(assumptions, layout.first_device());
  for (const Link& link : layout.cluster().links()) {
    const double fraction =
        link.between_nodes ? constants.network_fraction : constants.link_fraction;
    network.links.push_back({.name = link.name, .bytes_per_second = link.bytes_per_s * fraction});
  }
  const Flows flows(program, plan, layout, assumptions);
  for (const CostKey& key : program.cost_keys()) network.flows.push_back(flows.of(key));
  return network;
}

}  // namespace tandem
