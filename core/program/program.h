#pragma once
// Program: a schedule made executable — instructions in one global topological order, each device's
// slice of it, lanes and waits. Made by lower(); consumed alike by the simulator and the executor.

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/table.h"
#include "core/schedule/op.h"
#include "core/schedule/placement.h"
#include "core/schedule/reading.h"
#include "core/schedule/version_rule.h"

namespace tandem {

/// What a lane carries; of transfers in which direction, for each peer.
enum class LaneKind : std::uint8_t {
  compute,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  collective,
  send_stash,
  receive_stash,
};
inline constexpr std::size_t kLaneKinds = 8;
/// "compute", "send_activation", …, as in traces.
std::string_view name(LaneKind kind);

/// One in-order queue of one device. Transfer lanes are one for each peer; for the others `peer` is
/// the device itself.
struct Lane {
  DeviceId device{};
  LaneKind kind = LaneKind::compute;
  DeviceId peer{};
  friend auto operator<=>(const Lane&, const Lane&) = default;
};

/// Completion of `producer`, `lag` bodies ago.
struct Wait {
  InstructionId producer{};
  std::uint32_t lag = 0;
  friend auto operator<=>(const Wait&, const Wait&) = default;
};

/// For a transfer `op.replica` is the sender's and `op.microbatch` the producer's offset; for a
/// collective `op.replica` is the first participant, ids ascending, and the covered microbatches
/// are those of the update it serves.
struct Instruction {
  Op op;
  CostId cost{};
  std::uint32_t first_lane = 0, first_wait = 0;  // into the program's pools
  std::uint16_t lane_count = 0;  // transfer 2 (sender's first; of a stash's its replica's device),
                                 // collective k: where devices meet
  std::uint16_t wait_count = 0;
};
static_assert(sizeof(Instruction) == 28);

/// Ops that cost the same share a key, by which they are priced: tens of keys, not millions.
struct CostKey {
  OpKind kind{};
  std::uint16_t width = 1;  // in reduce_gradient only: replicas of the whole pipeline; else 1
  std::uint16_t span = 1;   // in backward_weight only: microbatches done as one; else 1
  bool overlapped = false;  // in a group (Op::group) of several kinds: its share of their time
  ReplicaId replica{};      // of a transfer: the sender's
  // Both are the replica's device, except for transfers: a transfer goes from source to target,
  // and a stash moves, there or back, between the replica's device and its partner.
  DeviceId source{}, target{};
  std::uint16_t slice = 0;  // of its microbatch's, of what works on one: slices differ in length
                            // and in how many tokens stand before them
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};

/// The devices that a transfer goes between.
struct TransferEnds {
  DeviceId from{}, to{};
};
/// REQUIRES: `key` is a transfer's.
inline TransferEnds ends_of(const CostKey& key) {
  return fetches(key.kind) ? TransferEnds{key.target, key.source}
                           : TransferEnds{key.source, key.target};
}

/// The lane on which an op counts: a transfer's is that of its replica's device.
LaneKind own_lane(OpKind kind);

/// The plain data of a program. lower() fills it; tests break copies of it on purpose.
struct ProgramParts {
  std::string schedule;
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;  // Schedule::slices
  Placement placement;
  VersionRule version_rule = VersionRule::same;  // Schedule::version_rule
  Table<StageId, Reading> readings = {};         // Schedule::readings
  bool forwards_alone = false;                   // Schedule::forwards_alone
  std::vector<Instruction> instructions;         // one global topological order
  std::vector<LaneId> lane_pool;
  std::vector<Wait> wait_pool;
  Table<LaneId, Lane> lanes;
  Table<CostId, CostKey> cost_keys;
};

/// Immutable. Instructions stand in one global topological order of a body: any machine on which
/// each device issues its slice of it, in order, body after body, may block wherever it likes and
/// can't deadlock.
class Program {
 public:
  /// REQUIRES: every id in `parts` names an existing row, and the pools hold every range (checked,
  /// aborts). verify() says if the program is *right* (core/verify/verify.h).
  explicit Program(ProgramParts parts);

  const std::string& schedule() const { return parts_.schedule; }
  const Placement& placement() const { return parts_.placement; }
  /// Of a batch; where sequences are sliced, slices, those of a microbatch one after the other.
  std::int32_t microbatches() const { return parts_.microbatches; }
  /// Of each microbatch: 1 where sequences are whole.
  std::int32_t slices() const { return parts_.slices; }
  /// Which of its microbatch's an op works on, from 0. REQUIRES: it is of one.
  std::int32_t slice_of(const Op& op) const { return op.microbatch % parts_.slices; }
  VersionRule version_rule() const { return parts_.version_rule; }
  /// Nothing comes back that says when a slot is free: a body ends before the next one begins.
  bool forwards_alone() const { return parts_.forwards_alone; }

  /// What the passes of a replica's stage read instead of the weights.
  Reading reading(ReplicaId replica) const {
    if (parts_.readings.empty()) return {};
    return parts_.readings[parts_.placement.stage[replica]];
  }

  std::size_t size() const { return parts_.instructions.size(); }
  std::span<const Instruction> instructions() const { return parts_.instructions; }
  const Instruction& operator[](InstructionId id) const { return parts_.instructions[index(id)]; }
  /// All of them, in their order.
  IdRange<InstructionId> order() const { return IdRange<InstructionId>(size()); }
  /// Those that occupy a lane of `device`, in their order: its slice. Linear in the program.
  std::vector<InstructionId> on(DeviceId device) const;
  std::span<const LaneId> lanes(const Instruction& instruction) const {
    return {parts_.lane_pool.data() + instruction.first_lane, instruction.lane_count};
  }
  std::span<const Wait> waits(const Instruction& instruction) const {
    return {parts_.wait_pool.data() + instruction.first_wait, instruction.wait_count};
  }
  const Table<LaneId, Lane>& lanes() const { return parts_.lanes; }
  const Table<CostId, CostKey>& cost_keys() const { return parts_.cost_keys; }

  /// Bodies before batch 0 in which anything is live; 0 for schedules that flush.
  std::int32_t ramp() const { return ramp_; }
  /// 1 + the largest lag: how many bodies of completions a machine remembers.
  std::uint32_t depth() const { return depth_; }

  const ProgramParts& parts() const { return parts_; }

 private:
  ProgramParts parts_;
  std::int32_t ramp_ = 0;
  std::uint32_t depth_ = 1;
};

/// For each instruction: someone waits for it, so that its completion is to be remembered.
std::vector<bool> awaited(const Program& program);

/// "f3", "2b7", "send_activation 0→1 #3": an instruction named for people.
std::string describe(const Program& program, InstructionId id);

}  // namespace tandem
