#pragma once
// Inside of count_slots(): how long rings must be, from what is known as each use begins. Nobody
// else includes this.

#include <array>
#include <cstdint>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/slot_knowledge.h"
#include "core/memory/slot_uses.h"
#include "core/program/program.h"

namespace tandem::slots {

/// Of each ring the first use whose release is not known: of gradients an update, else a
/// microbatch.
using OldestUses = Table<ReplicaId, std::array<Turn, kSlotKinds>>;

class SlotRings {
 public:
  SlotRings(const Program& program, const KnowledgeSpace& space, const SlotUses& uses);

  /// The instruction begins, for the microbatch `now`, on a device that knows the row `knows`: a
  /// ring must be long enough to reach back only to slots known to be free.
  void begin(OldestUses& oldest, InstructionId id, const Turn& now, const Position* knows);

  const SlotCounts& counts() const { return counts_; }
  /// Those of counted_by_knowledge() that the stage has.
  std::vector<SlotKind> kinds_of(ReplicaId replica) const;

 private:
  /// Who asks, and what it knows.
  struct Asker {
    DeviceId device{};
    const Position* knows = nullptr;
  };
  void count_versions();
  bool ended(const Asker& asker, const Release& release, std::int64_t batch) const;
  bool released(SlotKind kind, ReplicaId replica, const Turn& microbatch, const Asker& asker) const;
  void take(SlotKind kind, ReplicaId replica, const Turn& now, const Asker& asker, Turn& oldest);
  void take_hosted(ReplicaId replica, const Turn& now, const Asker& asker, Turn& oldest);
  void take_gradient(ReplicaId replica, const Turn& now, const Asker& asker, Turn& oldest);
  void require(SlotKind kind, ReplicaId replica, std::int64_t back) {
    std::int32_t& count = counts_[replica][kind];
    if (back >= count) count = static_cast<std::int32_t>(back + 1);
  }

  const Program& program_;
  const KnowledgeSpace& space_;
  const SlotUses& uses_;
  SlotCounts counts_;
};

}  // namespace tandem::slots
