#include "simulator/contention/contended_program.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tandem {

namespace {

using Lanes = std::vector<LaneId>;

/// Lanes that all of one kind occupy: what more and more of them have in common; empty as long as
/// there were none.
using CommonLanes = std::optional<Lanes>;

void keep_common(CommonLanes& common, std::span<const LaneId> lanes) {
  if (!common) {
    common.emplace(lanes.begin(), lanes.end());
    return;
  }
  std::erase_if(*common,
                [&](LaneId lane) { return std::ranges::find(lanes, lane) == lanes.end(); });
}

/// Of each key's instructions.
Table<CostId, CommonLanes> common_lanes(const Program& program) {
  Table<CostId, CommonLanes> common(program.cost_keys().size());
  for (const Instruction& instruction : program.instructions()) {
    if (on_compute_lane(instruction.op.kind)) continue;
    keep_common(common[instruction.cost], program.lanes(instruction));
  }
  return common;
}

/// What takes longer than any run ends no sooner than the clock does.
std::int64_t ticks(Duration time) {
  return std::min(time.count(), kEndOfClock / kTicks + 1) * kTicks;
}

}  // namespace

ContendedProgram::ContendedProgram(const Program& program, const CostTable& costs,
                                   const Network& network)
    : program_(program), kinds_(program.cost_keys().size()) {
  slowdowns_.assign(program.placement().devices, 1.0);
  std::copy(network.compute_slowdown.begin(), network.compute_slowdown.end(), slowdowns_.begin());
  list_nodes();
  list_consumers();
  find_shared_links(network);
  const CostTable unshared = unshared_costs(network, costs);
  for (const CostId id : ids(kinds_)) add_kind(network, id, unshared[id]);
  if (std::ranges::any_of(slowdowns_, [](double slowdown) { return slowdown > 1.0; })) {
    for (const Instruction& instruction : program.instructions()) add_slowed(instruction);
  }
}

bool ContendedProgram::is_plain() const { return std::ranges::none_of(kinds_, &Kind::followed); }

void ContendedProgram::list_nodes() {
  Table<LaneId, std::vector<InstructionId>> first(program_.lanes().size());  // by their first lane
  std::vector<InstructionId> without;
  for (const InstructionId id : program_.order()) {
    const std::span<const LaneId> lanes = program_.lanes(program_[id]);
    (lanes.empty() ? without : first[lanes.front()]).push_back(id);
  }
  nodes_.reserve(program_.size());
  node_of_.resize(program_.size());
  const auto list = [&](const std::vector<InstructionId>& instructions) {
    for (const InstructionId id : instructions) {
      const Instruction& instruction = program_[id];
      node_of_[id] = nodes_.push_back({.id = id,
                                       .cost = instruction.cost,
                                       .microbatch = instruction.op.microbatch,
                                       .first_lane = static_cast<std::uint32_t>(lanes_.size()),
                                       .lanes = instruction.lane_count});
      for (const LaneId lane : program_.lanes(instruction)) lanes_.push_back(lane);
    }
  };
  for (const std::vector<InstructionId>& of_lane : first) list(of_lane);
  list(without);
  on_lanes_.resize(program_.lanes().size());
  for (const InstructionId id : program_.order()) {
    for (const LaneId lane : program_.lanes(program_[id])) on_lanes_[lane].push_back(node_of_[id]);
  }
}

void ContendedProgram::list_consumers() {
  for (const Wait& wait : program_.parts().wait_pool) ++nodes_[node_of_[wait.producer]].consumers;
  std::uint32_t first = 0;
  for (Node& node : nodes_) {
    node.first_consumer = first;
    first += node.consumers;
    node.consumers = 0;
  }
  consumers_.resize(first);
  for (const InstructionId id : program_.order()) {
    for (const Wait& wait : program_.waits(program_[id])) {
      Node& producer = nodes_[node_of_[wait.producer]];
      consumers_[producer.first_consumer + producer.consumers++] = {node_of_[id], wait.lag};
    }
  }
}

void ContendedProgram::find_shared_links(const Network& network) {
  Table<Network::LinkId, CommonLanes> common(network.links.size());
  if (!network.flows.empty()) {
    const Table<CostId, CommonLanes> of_keys = common_lanes(program_);
    for (const CostId id : ids(network.flows)) {
      if (!of_keys[id]) continue;
      for (const Network::Flow& flow : network.flows[id]) {
        for (const Network::LinkId link : flow.links) keep_common(common[link], *of_keys[id]);
      }
    }
  }
  for (const Network::LinkId link : ids(network.links)) {
    const bool shared = common[link] && common[link]->empty();
    shared_.push_back(shared ? static_cast<std::uint32_t>(capacities_.size()) : kNoGroup);
    if (shared) capacities_.push_back(network.links[link].bytes_per_second);
  }
}

void ContendedProgram::add_kind(const Network& network, CostId id, Duration unshared) {
  const CostKey& key = program_.cost_keys()[id];
  Kind& kind = kinds_[id];
  kind.time = ticks(unshared);
  kind.device = key.source;
  kind.own = on_compute_lane(key.kind);
  kind.useful = is_useful(key.kind);
  kind.followed = kind.own && slowdowns_[index(key.source)] > 1.0;
  if (kind.own) return;
  kind.first_leg = static_cast<std::uint32_t>(legs_.size());
  const bool flows = !network.flows.empty() && !network.flows[id].empty();
  if (flows)
    add_legs(network, network.flows[id]);
  else
    legs_.push_back({.delay = kind.time});
  kind.legs = static_cast<std::uint32_t>(legs_.size()) - kind.first_leg;
  kind.followed = kind.legs > 1 || legs_.back().group != kNoGroup;
}

/// Delays that follow one another are one.
void ContendedProgram::add_legs(const Network& network, const std::vector<Network::Flow>& flows) {
  Duration delay{};
  const std::size_t before = legs_.size();
  for (const Network::Flow& flow : flows) {
    delay += flow.latency;
    if (flow.bytes == 0) continue;
    const std::uint32_t group = group_of(network, flow);
    if (group == kNoGroup) {
      delay += transmission_time(flow.bytes, unshared_rate(network, flow));
    } else {
      legs_.push_back({.delay = ticks(delay), .group = group, .bytes = flow.bytes});
      delay = {};
    }
  }
  if (delay > Duration{} || legs_.size() == before) legs_.push_back({.delay = ticks(delay)});
}

/// Links that it has for itself limit its rate, if they are narrower than those it shares.
std::uint32_t ContendedProgram::group_of(const Network& network, const Network::Flow& flow) {
  FlowGroup group{.crossings = {}, .cap = flow.bytes_per_second, .weight = flow.weight};
  std::map<Network::LinkId, double> times;
  for (const Network::LinkId link : flow.links) times[link] += 1.0;
  double narrowest_shared = Network::kNoCap;
  for (const auto& [link, count] : times) {
    const double alone = network.links[link].bytes_per_second / count;
    if (shared_[link] == kNoGroup) {
      group.cap = std::min(group.cap, alone);
    } else {
      narrowest_shared = std::min(narrowest_shared, alone);
      group.crossings.push_back({shared_[link], count});
    }
  }
  if (group.crossings.empty()) return kNoGroup;
  if (group.cap >= narrowest_shared) group.cap = Network::kNoCap;
  const auto found = std::ranges::find(groups_, group);
  if (found != groups_.end()) return static_cast<std::uint32_t>(found - groups_.begin());
  groups_.push_back(std::move(group));
  return static_cast<std::uint32_t>(groups_.size() - 1);
}

/// The devices that take part in what moves: both ends of a transfer, all lanes of a sum. Of a key
/// they are always the same.
void ContendedProgram::add_slowed(const Instruction& instruction) {
  Kind& kind = kinds_[instruction.cost];
  if (kind.own || kind.slowed > 0) return;
  const CostKey& key = program_.cost_keys()[instruction.cost];
  std::vector<DeviceId> devices{key.source, key.target};
  if (is_collective(key.kind)) {
    devices.clear();
    for (const LaneId lane : program_.lanes(instruction))
      devices.push_back(program_.lanes()[lane].device);
  }
  std::ranges::sort(devices);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  std::erase_if(devices, [&](DeviceId device) { return slowdowns_[index(device)] <= 1.0; });
  kind.first_slowed = static_cast<std::uint32_t>(slowed_.size());
  kind.slowed = static_cast<std::uint32_t>(devices.size());
  slowed_.insert(slowed_.end(), devices.begin(), devices.end());
  kind.followed = kind.followed || kind.slowed > 0;
}

}  // namespace tandem
