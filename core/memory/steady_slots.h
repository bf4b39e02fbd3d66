#pragma once
// Inside of count_slots(): which periods of a steady part it may leave out, so that a batch of a
// thousand microbatches takes no longer than the few after which nothing new is known. Nobody else
// includes this.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/slot_uses.h"
#include "core/program/program.h"
#include "core/program/steady_part.h"

namespace tandem::slots {

/// How far a stretch of a run goes.
struct Advance {
  Table<LaneId, Position> lanes;  // compute and collective ops
  std::vector<LaneId> on;         // all lanes with instructions of it, transfers' too
  std::int64_t microbatches = 0, batches = 0;
};
Advance advance_of_body(const Program& program, const SlotUses& uses);

/// A steady part all of whose periods are alike to a counter of slots: passes and their transfers
/// alone, in which no update's gradients begin.
struct SteadyUses {
  SteadyPart part;
  Advance period;
  // Ends of periods. Of completions between them each period finds those of the last
  // `part.reach` periods alone, and nobody else finds any.
  std::size_t from = 0, resume = 0;
  std::int32_t regular_from = 0;  // from this residue on the op that ends a use is that of the
                                  // residue `shift` before it, a period later, or after `resume`

  /// How far before an instruction the one stands whose completion nobody looks for any more when
  /// this one ends; 0: there is none.
  std::size_t ring_behind(std::size_t at) const {
    const std::size_t ring = (part.reach + 1) * part.length;
    return at >= from + ring && at < resume ? ring : 0;
  }
};

/// Nothing where no part is such, or it is too short to leave out any of it.
std::optional<SteadyUses> steady_uses(const Program& program, const SlotUses& uses,
                                      const SteadyPart& part);

/// count_slots(), which takes the program's steady_part(); with an empty one all is looked at.
SlotCounts count(const Program& program, const SteadyPart& steady);

}  // namespace tandem::slots
