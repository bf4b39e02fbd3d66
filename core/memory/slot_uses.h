#pragma once
// Inside of count_slots(): what begins and ends the uses of slots, by replica and residue. Nobody
// else includes this.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/slot_knowledge.h"
#include "core/program/program.h"

namespace tandem::slots {

/// The instruction that ends a use, found by the stage and residue it works on.
struct Release {
  LaneId lane{};
  bool exists = false;
  std::int32_t batch = 0;  // of its microbatch in body 0
  Position place = 0;      // on its lane, within a body
};

/// An update, and the last residue that it covers.
struct CoveringUpdate {
  std::int32_t residue = 0;
  Release release;
};

class SlotUses {
 public:
  explicit SlotUses(const Program& program);

  /// The microbatch that an op of this offset works on in `body`, and its number in the run.
  Turn turn(std::int64_t body, std::int32_t offset) const {
    if (offset < m_) return {body, offset};
    return {body + offset / m_, offset % m_};
  }
  std::int64_t number(const Turn& microbatch) const {
    return microbatch.batch * m_ + microbatch.residue;
  }
  Turn turn_of(std::int64_t number) const {
    return {number / m_, static_cast<std::int32_t>(number % m_)};
  }

  /// Compute and collective ops of a body on the lane, and the place of one among them.
  Position lane_length(LaneId lane) const { return lane_length_[lane]; }
  Position place(InstructionId id) const { return place_[index(id)]; }

  const Release& forward(ReplicaId replica, std::int32_t residue) const {
    return forward_[at(replica, residue)];
  }
  const Release& input_gradient(ReplicaId replica, std::int32_t residue) const {
    return input_gradient_[at(replica, residue)];
  }
  const Release& weight_gradient(ReplicaId replica, std::int32_t residue) const {
    return weight_gradient_[at(replica, residue)];
  }
  /// Of the replica, by residue; and the place among them of the one that covers a residue.
  const std::vector<CoveringUpdate>& updates(ReplicaId replica) const { return updates_[replica]; }
  std::size_t update_of(ReplicaId replica, std::int32_t residue) const;
  /// The first weight gradient of an update acquires its gradient slot.
  bool is_first_gradient(InstructionId id) const { return first_gradient_[index(id)]; }

  const std::vector<ReplicaId>& below(ReplicaId replica) const { return below_[replica]; }
  const std::vector<ReplicaId>& above(ReplicaId replica) const { return above_[replica]; }
  const MicrobatchSequence& sequence() const { return sequence_; }

  bool processes(ReplicaId replica, std::int32_t residue) const {
    return forward(replica, residue).exists;
  }
  bool takes_input_gradient(ReplicaId replica, std::int32_t residue) const {
    return !above_[replica].empty() && !sequence_.makes_gradient_in_output(replica, residue);
  }
  bool takes(SlotKind kind, ReplicaId replica, std::int32_t residue) const {
    return processes(replica, residue) &&
           (kind != SlotKind::input_gradient || takes_input_gradient(replica, residue));
  }
  /// The stage on the transfer's target device that takes the microbatch.
  ReplicaId receiver(InstructionId transfer, std::int32_t residue) const;
  /// Where what reads weights finds them.
  SlotKind slot_read_by(const Op& op) const;

 private:
  std::size_t at(ReplicaId replica, std::int32_t residue) const {
    return index(replica) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(residue);
  }
  void index_program();
  void mark_first_gradients();

  const Program& program_;
  const std::int32_t m_;
  const MicrobatchSequence sequence_;
  Table<ReplicaId, std::vector<ReplicaId>> below_, above_;
  std::vector<Release> forward_, input_gradient_, weight_gradient_;
  Table<LaneId, Position> lane_length_;
  std::vector<Position> place_;
  std::vector<bool> first_gradient_;
  Table<ReplicaId, std::vector<CoveringUpdate>> updates_;
};

/// What SlotUses finds by replica and residue.
using ReleaseOf = const Release& (SlotUses::*)(ReplicaId, std::int32_t) const;

}  // namespace tandem::slots
