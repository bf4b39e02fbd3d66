#pragma once
// ContendedProgram: a program, its prices and a network, compiled for the contended machine. A link
// whose flows all occupy one lane carries one at a time: it limits their rate and shares nothing.
// What then crosses no shared link takes a time known beforehand, like any op, and only the rest
// has to be followed through time.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/program/cost.h"
#include "core/program/program.h"
#include "simulator/contention/fair_shares.h"
#include "simulator/contention/network.h"

namespace tandem {

class ContendedProgram {
 public:
  /// REQUIRES: check(network, program) passed; the program outlives this.
  ContendedProgram(const Program& program, const CostTable& costs, const Network& network);

  static constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

  /// Part of what moves for a key: a delay, then bytes over shared links.
  struct Leg {
    std::int64_t delay = 0;          // ticks
    std::uint32_t group = kNoGroup;  // of flows; none: only the delay
    Bytes bytes = 0;
  };
  /// An instruction. Those of a lane stand together, in its order, so that a run goes through
  /// memory in as many straight lines as there are lanes.
  enum class NodeId : std::uint32_t {};
  struct Node {
    InstructionId id{};
    CostId cost{};
    std::int32_t microbatch = 0;  // Op::microbatch
    std::uint32_t first_lane = 0, first_consumer = 0;
    std::uint16_t lanes = 0, consumers = 0;
  };
  /// What the instructions of a cost key have in common.
  struct Kind {
    std::int64_t time = 0;                  // ticks, unless it moves over shared links; not slowed
    DeviceId device{};                      // whose compute lane it occupies
    bool own = false;                       // of the device, not of what links carry
    bool useful = false;                    // forward or backward
    bool followed = false;                  // through time: when it ends isn't known when it starts
    std::uint32_t first_leg = 0, legs = 0;  // of what moves and is followed
    std::uint32_t first_slowed = 0, slowed = 0;  // devices on which it slows compute
  };
  /// Who waits for an instruction, so many bodies later.
  struct Consumer {
    NodeId node{};
    std::uint32_t lag = 0;
  };

  const Program& program() const { return program_; }
  /// Nothing is shared or slowed: no instruction is followed through time.
  bool is_plain() const;
  const Kind& kind(CostId cost) const { return kinds_[cost]; }
  std::span<const Leg> legs(const Kind& kind) const {
    return {legs_.data() + kind.first_leg, kind.legs};
  }
  std::span<const DeviceId> slowed(const Kind& kind) const {
    return {slowed_.data() + kind.first_slowed, kind.slowed};
  }
  const Table<NodeId, Node>& nodes() const { return nodes_; }
  std::span<const LaneId> lanes(const Node& node) const {
    return {lanes_.data() + node.first_lane, node.lanes};
  }
  std::span<const Consumer> consumers(const Node& node) const {
    return {consumers_.data() + node.first_consumer, node.consumers};
  }
  /// The instructions of a lane, in their order.
  std::span<const NodeId> on(LaneId lane) const { return on_lanes_[lane]; }

  /// Of links that are shared.
  const std::vector<double>& capacities() const { return capacities_; }
  const std::vector<FlowGroup>& groups() const { return groups_; }
  /// By device.
  const std::vector<double>& slowdowns() const { return slowdowns_; }

 private:
  void list_nodes();
  void list_consumers();
  void find_shared_links(const Network& network);
  void add_kind(const Network& network, CostId id, Duration unshared);
  void add_slowed(const Instruction& instruction);
  void add_legs(const Network& network, const std::vector<Network::Flow>& flows);
  std::uint32_t group_of(const Network& network, const Network::Flow& flow);

  const Program& program_;
  Table<CostId, Kind> kinds_;
  std::vector<Leg> legs_;
  std::vector<DeviceId> slowed_;
  Table<NodeId, Node> nodes_;
  Table<InstructionId, NodeId> node_of_;
  std::vector<LaneId> lanes_;
  std::vector<Consumer> consumers_;
  Table<LaneId, std::vector<NodeId>> on_lanes_;
  Table<Network::LinkId, std::uint32_t> shared_;  // its number among the shared ones, or kNoGroup
  std::vector<double> capacities_, slowdowns_;
  std::vector<FlowGroup> groups_;
};

}  // namespace tandem
