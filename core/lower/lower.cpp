#include "core/lower/lower.h"

#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/lower/order.h"

namespace tandem {

namespace {

using lowering::at;
using lowering::Body;
using lowering::kNone;
using lowering::NodeId;

/// Order, lanes and prices for the nodes of a body.
class Assembly {
 public:
  Assembly(const Schedule& schedule, Body& body, TransferLanes transfer_lanes)
      : schedule_(schedule),
        placement_(schedule.placement),
        body_(body),
        order_(body),
        shared_(transfer_lanes == TransferLanes::shared) {
    CostIds none;
    none.fill(kUnpriced);
    cost_of_slice_.assign(placement_.replicas() * at(schedule.slices), none);
    cost_of_link_.assign(body.links.size() * at(schedule.slices), kUnpriced);
    make_lanes();
  }

  ProgramParts parts() {
    const std::size_t size = body_.size();
    parts_.schedule = schedule_.name;
    parts_.microbatches = schedule_.microbatches;
    parts_.slices = schedule_.slices;
    parts_.placement = placement_;
    parts_.version_rule = schedule_.version_rule;
    parts_.readings = schedule_.readings;
    parts_.forwards_alone = schedule_.forwards_alone;
    parts_.instructions.reserve(size);
    parts_.lane_pool.reserve(body_.ops.size() + (shared_ ? 2 : 0) * body_.transfers.size());
    parts_.wait_pool.reserve(2 * body_.transfers.size() + body_.waits.size());
    NodeId node = kNone;
    constexpr std::size_t kBetween = 4096;
    while ((node = order_.next()) != kNone) {
      add(node);
      if (parts_.instructions.size() % kBetween == 0) keep_going();
    }
    order_.check_complete(schedule_);
    for (const NodeId late : late_) add_late_waits(late);
    return std::move(parts_);
  }

 private:
  static constexpr std::uint32_t kUnpriced = std::numeric_limits<std::uint32_t>::max();
  using CostIds = std::array<std::uint32_t, kOpKinds>;

  LaneId lane(DeviceId device, LaneKind kind, DeviceId peer) {
    const auto [found, added] = lane_ids_.try_emplace(Lane{device, kind, peer});
    if (added) found->second = parts_.lanes.push_back({device, kind, peer});
    if (parts_.lanes.size() > std::numeric_limits<std::uint16_t>::max()) {
      throw InputError(fmt::format("schedule \"{}\" needs more than {} lanes", schedule_.name,
                                   std::numeric_limits<std::uint16_t>::max()));
    }
    return found->second;
  }

  void make_lanes() {
    compute_lane_.resize(placement_.devices);
    auto sum = body_.sums.begin();
    for (const NodeId start : body_.starts) {
      if (sum != body_.sums.end() && sum->node == start) {
        for (const DeviceId device : sum++->devices) lane(device, LaneKind::collective, device);
        continue;
      }
      const DeviceId device = body_.device(start, placement_);
      if (moves_stash(body_.ops[at(start)].op.kind)) {
        if (shared_) stash_lanes(body_.ops[at(start)].op);
        continue;
      }
      compute_lane_[device] = lane(device, LaneKind::compute, device);
    }
    for (const lowering::Link& link : body_.links) {
      if (!shared_) break;
      const bool down = link.kind == OpKind::send_activation;
      const LaneId sends = lane(
          link.source, down ? LaneKind::send_activation : LaneKind::send_gradient, link.target);
      const LaneId receives =
          lane(link.target, down ? LaneKind::receive_activation : LaneKind::receive_gradient,
               link.source);
      link_lanes_.push_back({sends, receives});
    }
  }

  /// The device's own end first.
  std::array<LaneId, 2> stash_lanes(const Op& op) {
    const DeviceId home = placement_.device[op.replica], partner = placement_.partner[home];
    const bool leaves = op.kind == OpKind::evict;
    return {lane(home, leaves ? LaneKind::send_stash : LaneKind::receive_stash, partner),
            lane(partner, leaves ? LaneKind::receive_stash : LaneKind::send_stash, home)};
  }

  std::uint32_t price(const CostKey& key) {
    const auto [found, added] = cost_ids_.try_emplace(key);
    if (added) found->second = parts_.cost_keys.push_back(key);
    return static_cast<std::uint32_t>(index(found->second));
  }

  /// Of its microbatch's; 0 of what is done for whole ones.
  std::int32_t slice_of(const Op& op) const {
    return is_compute(op.kind) || is_transfer(op.kind) ? op.microbatch % schedule_.slices : 0;
  }

  CostKey key_of(const Op& op) const {
    CostKey key{.kind = op.kind, .replica = op.replica};
    key.source = key.target = placement_.device[op.replica];
    if (moves_stash(op.kind)) key.target = placement_.partner[key.source];
    if (op.kind == OpKind::reduce_gradient) key.width = schedule_.width;
    if (op.kind == OpKind::backward_weight) key.span = op.span;
    key.slice = static_cast<std::uint16_t>(slice_of(op));
    return key;
  }

  CostId cost_of(NodeId node) {
    const Op& op = body_.ops[at(node)].op;
    if (op.group != 0 || (op.kind == OpKind::backward_weight && op.span > 1)) {
      CostKey key = key_of(op);
      key.overlapped = body_.is_mixed_group(node);
      return CostId{price(key)};
    }
    const std::size_t row = index(op.replica) * at(schedule_.slices) + at(slice_of(op));
    std::uint32_t& known = cost_of_slice_[row][index(op.kind)];
    if (known == kUnpriced) known = price(key_of(op));
    return CostId{known};
  }

  CostId cost_of_link(std::uint32_t link_number, std::int32_t slice) {
    std::uint32_t& known = cost_of_link_[link_number * at(schedule_.slices) + at(slice)];
    if (known == kUnpriced) {
      const lowering::Link& link = body_.links[link_number];
      known = price({.kind = link.kind,
                     .replica = link.from,
                     .source = link.source,
                     .target = link.target,
                     .slice = static_cast<std::uint16_t>(slice)});
    }
    return CostId{known};
  }

  void add(NodeId node) {
    Instruction& instruction = parts_.instructions.emplace_back();
    instruction.first_lane = static_cast<std::uint32_t>(parts_.lane_pool.size());
    instruction.first_wait = static_cast<std::uint32_t>(parts_.wait_pool.size());
    if (body_.is_transfer(node)) {
      add_transfer(node, instruction);
    } else {
      add_op(node, instruction);
    }
    instruction.lane_count =
        static_cast<std::uint16_t>(parts_.lane_pool.size() - instruction.first_lane);
    instruction.wait_count =
        static_cast<std::uint16_t>(parts_.wait_pool.size() - instruction.first_wait);
  }

  void add_transfer(NodeId node, Instruction& instruction) {
    const lowering::Transfer& transfer = body_.transfer(node);
    instruction.op = body_.op(transfer);
    instruction.cost = cost_of_link(transfer.link, slice_of(instruction.op));
    if (shared_) {
      for (const LaneId lane : link_lanes_[transfer.link]) parts_.lane_pool.push_back(lane);
    }
    add_wait(body_.last_of_group(transfer.producer), 0);
  }

  void add_op(NodeId node, Instruction& instruction) {
    instruction.op = body_.ops[at(node)].op;
    instruction.cost = cost_of(node);
    if (on_compute_lane(instruction.op.kind)) {
      parts_.lane_pool.push_back(compute_lane_[body_.device(node, placement_)]);
    } else if (is_collective(instruction.op.kind)) {
      for (const DeviceId device : body_.sum(node).devices)
        parts_.lane_pool.push_back(lane(device, LaneKind::collective, device));
    } else if (shared_) {
      std::ranges::copy(stash_lanes(instruction.op), std::back_inserter(parts_.lane_pool));
    }
    const NodeId through = body_.ops[at(node)].first_to;
    const bool waits = !body_.waits_of.of(node).empty();
    if (through == kNone && !waits) return;
    const bool one = !waits && body_.next(body_.next_to, through) == kNone;
    if (one && body_.transfer(through).lag == 0) {
      add_wait(through, 0);
    } else {
      late_.push_back(node);
    }
  }

  void add_wait(NodeId producer, std::uint32_t lag) {
    parts_.wait_pool.push_back({InstructionId{order_.position(producer)}, lag});
  }

  /// Once all have a place. None for what a shared lane implies. Of producers on one lane the
  /// latest implies the others: least lag, then last in order.
  void add_late_waits(NodeId consumer) {
    struct Latest {
      NodeId producer;
      std::uint32_t lag;
      std::optional<LaneId> lane;
    };
    std::vector<Latest> kept;
    const auto offer = [&](NodeId producer, std::uint32_t lag) {
      const Latest wait{producer, lag, first_lane(producer)};
      const auto rival = std::find_if(kept.begin(), kept.end(), [&](const Latest& other) {
        return wait.lane && other.lane == wait.lane;
      });
      if (rival == kept.end()) {
        kept.push_back(wait);
      } else if (lag < rival->lag || (lag == rival->lag && order_.position(producer) >
                                                               order_.position(rival->producer))) {
        *rival = wait;
      }
    };
    for (NodeId node = body_.ops[at(consumer)].first_to; node != kNone;
         node = body_.next(body_.next_to, node)) {
      offer(node, body_.transfer(node).lag);
    }
    for (const std::uint32_t i : body_.waits_of.of(consumer)) {
      const lowering::NodeWait& wait = body_.waits[i];
      if (!share_a_lane(consumer, wait.producer)) offer(wait.producer, wait.lag);
    }
    Instruction& instruction = parts_.instructions[order_.position(consumer)];
    instruction.first_wait = static_cast<std::uint32_t>(parts_.wait_pool.size());
    instruction.wait_count = static_cast<std::uint16_t>(kept.size());
    for (const Latest& wait : kept) add_wait(wait.producer, wait.lag);
  }

  /// Of two ops only sums are still to be asked: what else shares a lane has no wait (lowering.h).
  bool share_a_lane(NodeId a, NodeId b) const {
    if (!is_collective(body_.ops[at(a)].op.kind) || !is_collective(body_.ops[at(b)].op.kind))
      return false;
    const auto &ours = body_.sum(a).devices, &theirs = body_.sum(b).devices;
    return std::find_first_of(ours.begin(), ours.end(), theirs.begin(), theirs.end()) != ours.end();
  }

  std::optional<LaneId> first_lane(NodeId node) {
    if (body_.is_transfer(node)) {
      if (!shared_) return std::nullopt;
      return link_lanes_[body_.transfer(node).link].front();
    }
    const Op& op = body_.ops[at(node)].op;
    if (on_compute_lane(op.kind)) return compute_lane_[placement_.device[op.replica]];
    if (moves_stash(op.kind)) return shared_ ? std::optional(stash_lanes(op)[0]) : std::nullopt;
    const DeviceId device = body_.sum(node).devices.front();
    return lane(device, LaneKind::collective, device);
  }

  const Schedule& schedule_;
  const Placement& placement_;
  Body& body_;
  lowering::UnitOrder order_;
  const bool shared_;
  ProgramParts parts_;
  std::vector<NodeId> late_;  // those whose waits are not all on what has a place before them
  Table<DeviceId, LaneId> compute_lane_;
  std::vector<std::array<LaneId, 2>> link_lanes_;
  std::map<Lane, LaneId> lane_ids_;
  std::vector<CostIds> cost_of_slice_;  // of each replica's
  std::vector<std::uint32_t> cost_of_link_;
  std::map<CostKey, CostId> cost_ids_;
};

}  // namespace

static ProgramParts parts_of(const Schedule& schedule, TransferLanes transfer_lanes) {
  const Activity progress("lowering the schedule");
  Body body = lowering::ops_of(schedule);
  lowering::connect(schedule, lowering::OpIndex(schedule, body), body);
  return Assembly(schedule, body, transfer_lanes).parts();
}

Program lower(const Schedule& schedule, TransferLanes transfer_lanes) {
  // The body is gone before the program makes tables of its own.
  return Program(parts_of(schedule, transfer_lanes));
}

}  // namespace tandem
