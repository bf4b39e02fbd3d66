#include "core/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "core/lowering.h"

namespace tandem {

namespace {

using lowering::Node;
using lowering::NodeWait;
using lowering::OpIndex;

constexpr std::int32_t kNone = lowering::kNone;

/// Builds the nodes of one body: the schedule's ops, the transfers between devices, and every wait
/// by name.
class Lowering {
 public:
  Lowering(const Schedule& schedule, TransferLanes transfer_lanes)
      : schedule_(schedule),
        placement_(schedule.placement),
        m_(schedule.microbatches),
        transfer_lanes_(transfer_lanes),
        nodes_(lowering::nodes_of(schedule)),
        index_(schedule, nodes_) {}

  Program program() {
    for (const Placement::Edge& edge : placement_.edges) connect(edge);
    for (std::size_t node = 0; node < nodes_.size(); ++node) add_local_waits(node);
    put_on_lanes();
    const std::vector<std::int32_t> order = lowering::order_by_unit_start(schedule_, nodes_);
    return assemble(order);
  }

 private:
  /// Bodies between the producer's and the consumer's instance of one microbatch; offsets are
  /// congruent modulo m.
  std::uint32_t lag(std::int32_t producer, std::int32_t consumer) const {
    const std::int32_t apart =
        nodes_[at(producer)].op.microbatch - nodes_[at(consumer)].op.microbatch;
    return lag_of(producer, consumer, floor_div(apart, m_));
  }

  std::uint32_t lag_of(std::int32_t producer, std::int32_t consumer, std::int32_t bodies) const {
    if (bodies >= 0) return static_cast<std::uint32_t>(bodies);
    throw InfeasibleError(
        fmt::format("schedule \"{}\": {} needs {}, which the loop makes {} bodies later",
                    schedule_.name, lowering::describe(schedule_, nodes_[at(consumer)]),
                    lowering::describe(schedule_, nodes_[at(producer)]), -bodies));
  }

  static std::int32_t floor_div(std::int32_t a, std::int32_t b) {
    return a >= 0 ? a / b : -((-a + b - 1) / b);
  }
  static std::size_t at(std::int32_t node) { return static_cast<std::size_t>(node); }

  void wait_for(std::int32_t consumer, std::int32_t producer) {
    nodes_[at(consumer)].waits.push_back({producer, lag(producer, consumer)});
  }

  void connect(const Placement::Edge& edge) {
    for (std::int32_t residue = 0; residue < m_; ++residue) {
      const std::int32_t above = index_.forward(edge.from, residue);
      const std::int32_t below = index_.forward(edge.to, residue);
      if (above == kNone || below == kNone) continue;
      carry(OpKind::send_activation, edge.from, edge.to, above, below);
      carry(OpKind::send_gradient, edge.to, edge.from, index_.input_gradient(edge.to, residue),
            index_.input_gradient(edge.from, residue));
    }
  }

  /// Lets `consumer` wait for what `producer` made, through a transfer where their devices differ.
  void carry(OpKind kind, StageId from, StageId to, std::int32_t producer, std::int32_t consumer) {
    const DeviceId source = placement_.device[from], target = placement_.device[to];
    if (source == target) {
      wait_for(consumer, producer);
      return;
    }
    Node transfer;
    transfer.op = nodes_[at(producer)].op;
    transfer.op.kind = kind;
    transfer.op.staleness = 0;
    transfer.devices = {source, target};
    transfer.waits.push_back({producer, 0});
    nodes_.push_back(std::move(transfer));
    wait_for(consumer, static_cast<std::int32_t>(nodes_.size() - 1));
  }

  void add_local_waits(std::size_t node) {
    const Op op = nodes_[node].op;
    const auto self = static_cast<std::int32_t>(node);
    switch (op.kind) {
      case OpKind::forward:
        wait_for_version(self);
        break;
      case OpKind::recompute:
        wait_for(self, index_.forward(op.stage, op.microbatch % m_));
        break;
      case OpKind::backward:
      case OpKind::backward_input: {
        const std::int32_t again = index_.recompute(op.stage, op.microbatch % m_);
        wait_for(self, again != kNone ? again : index_.forward(op.stage, op.microbatch % m_));
        break;
      }
      case OpKind::backward_weight:
        for (std::int32_t i = 0; i < op.span; ++i) {
          wait_for_congruent(self, index_.input_gradient(op.stage, residue_below(op, i)), i);
        }
        break;
      case OpKind::reduce_tied:
      case OpKind::reduce_gradient:
      case OpKind::reduce_norm:
        for (const StageId stage : nodes_[node].stages) wait_for_gradients(self, stage);
        break;
      case OpKind::update:
        wait_for_gradients(self, op.stage);
        break;
      case OpKind::send_activation:
      case OpKind::send_gradient:
        break;
    }
  }

  std::int32_t residue_below(const Op& op, std::int32_t i) const {
    return (op.microbatch - i) % m_;
  }

  /// As wait_for, where the producer works on the microbatch `below` the consumer's own.
  void wait_for_congruent(std::int32_t consumer, std::int32_t producer, std::int32_t below) {
    if (producer == kNone) return;
    const std::int32_t apart =
        nodes_[at(producer)].op.microbatch - (nodes_[at(consumer)].op.microbatch - below);
    nodes_[at(consumer)].waits.push_back(
        {producer, lag_of(producer, consumer, floor_div(apart, m_))});
  }

  /// The last sum over devices that comes before `self` for the gradients of `stage`, or else the
  /// gradients themselves.
  void wait_for_gradients(std::int32_t self, StageId stage) {
    const Op op = nodes_[at(self)].op;
    // Kinds stand in the order in which they act on a gradient.
    for (const OpKind kind : {OpKind::reduce_norm, OpKind::reduce_gradient, OpKind::reduce_tied}) {
      if (kind >= op.kind) continue;
      const std::int32_t sum = index_.sum(kind, stage, op.microbatch % m_);
      if (sum != kNone) return wait_for(self, sum);
    }
    for (std::int32_t i = 0; i < op.span; ++i) {
      const std::int32_t gradient = index_.weight_gradient(stage, residue_below(op, i));
      if (gradient == kNone) continue;  // another replica's microbatch
      const std::int32_t last = nodes_[at(gradient)].op.microbatch;
      // A span's gradient op stands for all its microbatches: align on the batch that holds them.
      const std::int32_t bodies = floor_div(last, m_) - floor_div(op.microbatch, m_);
      nodes_[at(self)].waits.push_back({gradient, lag_of(gradient, self, bodies)});
    }
  }

  /// A forward reads the version made `staleness` + 1 updates of its stage before the one that
  /// covers its microbatch.
  void wait_for_version(std::int32_t self) {
    const Op op = nodes_[at(self)].op;
    const std::vector<std::int32_t>& updates = index_.updates(op.stage);
    const auto count = static_cast<std::int32_t>(updates.size());
    const std::int32_t covering = index_.update_covering(op.stage, op.microbatch % m_);
    const std::int32_t number = covering - op.staleness - 1;
    const std::int32_t batches = floor_div(number, count);
    const std::int32_t maker = updates[at(number - batches * count)];
    const std::int32_t maker_body = batches - nodes_[at(maker)].op.microbatch / m_;
    const std::int32_t bodies = -op.microbatch / m_ - maker_body;
    nodes_[at(self)].waits.push_back({maker, lag_of(maker, self, bodies)});
  }

  LaneId lane(DeviceId device, LaneKind kind, DeviceId peer) {
    const auto [found, added] = lane_ids_.try_emplace(Lane{device, kind, peer});
    if (added) found->second = lanes_.push_back({device, kind, peer});
    return found->second;
  }

  void put_on_lanes() {
    for (Node& node : nodes_) {
      if (is_transfer(node.op.kind)) {
        if (transfer_lanes_ == TransferLanes::ideal) continue;
        const bool activation = node.op.kind == OpKind::send_activation;
        const DeviceId source = node.devices[0], target = node.devices[1];
        node.lanes = {
            lane(source, activation ? LaneKind::send_activation : LaneKind::send_gradient, target),
            lane(target, activation ? LaneKind::receive_activation : LaneKind::receive_gradient,
                 source)};
      } else if (is_collective(node.op.kind)) {
        for (const DeviceId device : node.devices) {
          node.lanes.push_back(lane(device, LaneKind::collective, device));
        }
      } else {
        node.lanes = {lane(node.devices[0], LaneKind::compute, node.devices[0])};
      }
    }
  }

  CostId cost_of(const Node& node) {
    CostKey key;
    key.kind = node.op.kind;
    key.stage = node.op.stage;
    key.source = key.target = placement_.device[node.op.stage];
    if (is_transfer(node.op.kind)) key.target = node.devices[1];
    if (node.op.kind == OpKind::reduce_gradient) key.width = schedule_.width;
    const auto [found, added] = cost_ids_.try_emplace(key);
    if (added) found->second = cost_keys_.push_back(key);
    return found->second;
  }

  Program assemble(const std::vector<std::int32_t>& order) {
    std::vector<std::int32_t> position(nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      position[at(order[i])] = static_cast<std::int32_t>(i);
    ProgramParts parts;
    parts.schedule = schedule_.name;
    parts.microbatches = m_;
    parts.placement = placement_;
    parts.instructions.reserve(order.size());
    for (const std::int32_t id : order) {
      const Node& node = nodes_[at(id)];
      Instruction instruction;
      instruction.op = node.op;
      instruction.cost = cost_of(node);
      instruction.first_lane = static_cast<std::uint32_t>(parts.lane_pool.size());
      instruction.first_wait = static_cast<std::uint32_t>(parts.wait_pool.size());
      instruction.lane_count = static_cast<std::uint16_t>(node.lanes.size());
      parts.lane_pool.insert(parts.lane_pool.end(), node.lanes.begin(), node.lanes.end());
      for (const NodeWait& wait : lowering::needed_waits(nodes_, id, position)) {
        parts.wait_pool.push_back(
            {id_at<InstructionId>(at(position[at(wait.producer)])), wait.lag});
        ++instruction.wait_count;
      }
      parts.instructions.push_back(instruction);
    }
    parts.lanes = std::move(lanes_);
    parts.cost_keys = std::move(cost_keys_);
    return Program(std::move(parts));
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const std::int32_t m_;
  const TransferLanes transfer_lanes_;
  std::vector<Node> nodes_;
  OpIndex index_;
  Table<LaneId, Lane> lanes_;
  std::map<Lane, LaneId> lane_ids_;
  Table<CostId, CostKey> cost_keys_;
  std::map<CostKey, CostId> cost_ids_;
};

}  // namespace

Program lower(const Schedule& schedule, TransferLanes transfer_lanes) {
  return Lowering(schedule, transfer_lanes).program();
}

}  // namespace tandem
