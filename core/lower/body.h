#pragma once
// Inside of lower(): one loop body before it has an order. Nobody else includes this.
//
// Nodes are numbered: the schedule's ops device by device, in each device's order, an op that
// devices run together once, where it first stands; then the transfers. Tables are flat and no node
// owns memory: a body may have millions.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/program/program.h"
#include "core/schedule/schedule.h"

namespace tandem::lowering {

using NodeId = std::int32_t;
inline constexpr NodeId kNone = -1;

constexpr std::size_t at(NodeId node) { return static_cast<std::size_t>(node); }

/// A microbatch offset as batch and residue. Offsets are small multiples of m, where division is
/// the dearest part of many loops.
struct Split {
  std::int32_t batch = 0, residue = 0;
};
constexpr Split split(std::int32_t offset, std::int32_t m) {
  if (offset < m) return {0, offset};
  if (offset < 2 * m) return {1, offset - m};
  return {offset / m, offset % m};
}

/// Both ends of an edge between devices, one way.
struct Link {
  OpKind kind = OpKind::send_activation;
  ReplicaId from{}, to{};
  DeviceId source{}, target{};
};

/// Carries what `producer` made, in the same body, to `consumer`, `lag` bodies later. It leaves
/// when the producer's group has ended; of the consumer's group `consumer` is the first.
struct Transfer {
  NodeId producer = kNone, consumer = kNone;
  std::uint32_t lag = 0;
  std::uint32_t link = 0;
};

/// A node that is no transfer, with all that finding an order for it touches: as tables of their
/// own, each would be another miss of the cache.
struct OpNode {
  Op op;
  NodeId before = kNone;      // the op before it on its compute lane; of what is on none kNone
  NodeId first_from = kNone;  // the first of the transfers that carry its result …
  NodeId first_to = kNone;    // … and of those that bring what it needs
  std::int32_t start = 0;     // when it may start: while an order is sought
  std::uint32_t pending = 0;  // how many before it, in one body, have not ended
};

/// An op that its devices run together.
struct Sum {
  NodeId node = kNone;
  std::vector<DeviceId> devices;    // ascending, each once
  std::vector<ReplicaId> replicas;  // its participants
};

struct NodeWait {
  NodeId consumer = kNone, producer = kNone;
  std::uint32_t lag = 0;
};

/// Rows of `NodeWait` by node: rows of node i are list[first[i]] … list[first[i+1]−1]. Empty
/// `first`: there are none at all.
struct ByNode {
  std::vector<std::uint32_t> first, list;
  std::span<const std::uint32_t> of(NodeId node) const {
    if (first.empty()) return {};
    return std::span(list).subspan(first[at(node)], first[at(node) + 1] - first[at(node)]);
  }
};

/// Ops of one device that are done as one (Op::group).
struct Group {
  NodeId first = kNone, last = kNone;
  bool mixed = false;  // of several kinds
};

struct Body {
  std::vector<OpNode> ops;
  std::vector<Group> groups;  // of each op, which may be both ends; empty: there are no groups
  // The first of each compute lane, and what is on none; ascending.
  std::vector<NodeId> starts;
  std::vector<Sum> sums;  // ascending by node
  std::vector<Link> links;
  std::vector<Transfer> transfers;  // node ops.size() + i
  std::vector<NodeWait> waits;      // beyond those through transfers and those that lanes imply
  // Of each transfer: the next one of its producer, and of its consumer, ascending. Empty where no
  // op has several.
  std::vector<NodeId> next_from, next_to;
  ByNode waits_of;  // indices into `waits`, by consumer

  std::size_t size() const { return ops.size() + transfers.size(); }
  bool is_transfer(NodeId node) const { return at(node) >= ops.size(); }
  const Transfer& transfer(NodeId node) const { return transfers[at(node) - ops.size()]; }
  /// The transfer after `node` of the same op, by one of the lists above.
  NodeId next(const std::vector<NodeId>& list, NodeId node) const {
    return list.empty() ? kNone : list[at(node) - ops.size()];
  }
  /// Its producer's, with its own kind.
  Op op(const Transfer& transfer) const {
    Op moved = ops[at(transfer.producer)].op;
    moved.kind = links[transfer.link].kind;
    moved.staleness = moved.group = 0;
    return moved;
  }
  Op op(NodeId node) const { return is_transfer(node) ? op(transfer(node)) : ops[at(node)].op; }
  const Sum& sum(NodeId node) const;
  DeviceId device(NodeId node, const Placement& placement) const {
    return placement.device[ops[at(node)].op.replica];
  }
  /// The op that has this one before it: the next number but for what is on other lanes.
  NodeId after_on_device(NodeId node) const {
    if (!on_compute_lane(ops[at(node)].op.kind)) return kNone;
    for (std::size_t i = at(node) + 1; i < ops.size(); ++i) {
      if (ops[i].before == node) return static_cast<NodeId>(i);
      if (on_compute_lane(ops[i].op.kind)) break;
    }
    return kNone;
  }
  /// The ends of an op's group: itself where it stands alone.
  NodeId first_of_group(NodeId node) const {
    return groups.empty() ? node : groups[at(node)].first;
  }
  NodeId last_of_group(NodeId node) const { return groups.empty() ? node : groups[at(node)].last; }
  bool is_mixed_group(NodeId node) const { return !groups.empty() && groups[at(node)].mixed; }
};

/// The ops of the schedule; no transfers and waits yet. Throws InputError when the schedule breaks
/// an invariant (core/schedule/schedule.h) that needs no dependencies to see.
Body ops_of(const Schedule& schedule);

/// A node for each replica and residue; kNone: there is none. Empty: there are none at all.
struct NodeTable {
  std::int32_t m = 1;
  std::vector<NodeId> nodes{};

  std::size_t cell(ReplicaId replica, std::int32_t residue) const {
    return index(replica) * at(m) + at(residue);
  }
  NodeId operator()(ReplicaId replica, std::int32_t residue) const {
    return nodes.empty() ? kNone : nodes[cell(replica, residue)];
  }
};

/// Which node does what for a stage and a residue.
class OpIndex {
 public:
  /// Throws InputError when something is missing or there twice.
  OpIndex(const Schedule& schedule, const Body& body);

  NodeTable forward, recompute, input_gradient, weight_gradient, evict, load;
  NodeTable validation;  // of the update whose last microbatch has the residue
  /// The sum whose update's last microbatch has this residue.
  NodeId sum(OpKind kind, ReplicaId replica, std::int32_t residue) const {
    return sums_[index(kind)](replica, residue);
  }
  /// Nodes of the stage's updates in the order of the microbatches they cover, and the place there
  /// of a residue's.
  const std::vector<NodeId>& updates(ReplicaId replica) const { return updates_[replica]; }
  std::int32_t update_covering(ReplicaId replica, std::int32_t residue) const;

 private:
  NodeId& place(NodeTable& table, ReplicaId replica, std::int32_t residue) const;
  void record(NodeTable& table, const Op& op, NodeId node) const;
  void record_updates();
  void check_complete() const;
  void check_evictions() const;

  const Schedule& schedule_;
  const Body& body_;
  const std::int32_t m_;
  std::array<NodeTable, kOpKinds> sums_;
  Table<ReplicaId, std::vector<NodeId>> updates_;
};

/// Adds the transfers and the waits. Throws InfeasibleError when an op needs what the loop makes
/// later.
void connect(const Schedule& schedule, const OpIndex& index, Body& body);

/// "forward 3 of stage 1 (device 1)".
std::string describe(const Schedule& schedule, const Body& body, NodeId node);

}  // namespace tandem::lowering
