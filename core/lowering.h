#pragma once
// Inside of lower(): the nodes of one loop body before they have an order. Nobody else includes
// this.

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/schedule.h"

namespace tandem::lowering {

inline constexpr std::int32_t kNone = -1;

struct NodeWait {
  std::int32_t producer = kNone;
  std::uint32_t lag = 0;
};

struct Node {
  Op op;
  std::vector<DeviceId>
      devices;  // of a transfer: sender, receiver; of a collective: its participants, each once
  std::vector<StageId> stages;  // of a collective: its participants; else empty
  std::vector<LaneId> lanes;
  std::vector<NodeWait> waits;
  std::int32_t before = kNone;  // the op before it in its device's order, if both compute there
};

/// One node an op; ops of a kind that devices run together become one node.
/// Throws InputError when the schedule breaks an invariant (core/schedule.h) that needs no
/// dependencies to see.
std::vector<Node> nodes_of(const Schedule& schedule);

/// Which node does what for a stage and a residue. Throws InputError when something is missing or
/// there twice.
class OpIndex {
 public:
  OpIndex(const Schedule& schedule, const std::vector<Node>& nodes);

  std::int32_t forward(StageId stage, std::int32_t residue) const {
    return forward_[at(stage, residue)];
  }
  std::int32_t recompute(StageId stage, std::int32_t residue) const {
    return recompute_[at(stage, residue)];
  }
  std::int32_t input_gradient(StageId stage, std::int32_t residue) const {
    return input_gradient_[at(stage, residue)];
  }
  std::int32_t weight_gradient(StageId stage, std::int32_t residue) const {
    return weight_gradient_[at(stage, residue)];
  }
  /// The sum whose update's last microbatch has this residue.
  std::int32_t sum(OpKind kind, StageId stage, std::int32_t residue) const {
    return sums(kind)[at(stage, residue)];
  }
  /// Nodes of the stage's updates in the order of the microbatches they cover, and the place there
  /// of a residue's.
  const std::vector<std::int32_t>& updates(StageId stage) const { return updates_[stage]; }
  std::int32_t update_covering(StageId stage, std::int32_t residue) const {
    return covering_[at(stage, residue)];
  }

 private:
  std::size_t at(StageId stage, std::int32_t residue) const {
    return index(stage) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(residue);
  }
  const std::vector<std::int32_t>& sums(OpKind kind) const {
    return kind == OpKind::reduce_tied ? tied_ : kind == OpKind::reduce_norm ? norm_ : reduced_;
  }
  void record(std::vector<std::int32_t>& table, const Op& op, std::int32_t node);
  void record_updates(const std::vector<Node>& nodes);
  void check_complete() const;

  const Schedule& schedule_;
  std::int32_t m_;
  std::vector<std::int32_t> forward_, recompute_, input_gradient_, weight_gradient_, tied_,
      reduced_, norm_, covering_;
  Table<StageId, std::vector<std::int32_t>> updates_;
};

/// A topological order of lag-0 waits and device orders, by start time at unit cost (F = B = W = 1,
/// whole backward 2, all else 0), ties to transfers and sums. Throws InfeasibleError with the wait
/// cycle when there is none.
std::vector<std::int32_t> order_by_unit_start(const Schedule& schedule,
                                              const std::vector<Node>& nodes);

/// The node's waits without those that a shared lane implies, and of several producers on one lane
/// only the latest.
std::vector<NodeWait> needed_waits(const std::vector<Node>& nodes, std::int32_t node,
                                   const std::vector<std::int32_t>& position);

/// "forward 3 of stage 1 (device 1)".
std::string describe(const Schedule& schedule, const Node& node);

}  // namespace tandem::lowering
