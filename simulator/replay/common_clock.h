#pragma once
// The clocks of a recording's ranks, compared by the transfers between them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/units.h"

namespace tandem {

/// An op of a device as its rank saw it. Both ends of a transfer stand for one instruction.
struct SeenOp {
  std::uint32_t instruction = 0;
  bool transfer = false, receives = false;
  Duration start{}, end{};
  Duration ready{};  // of a transfer, when what both devices did before it had ended; by
                     // align_clocks(), where `blocking`
};

/// Whether transfers of a device, `next` ending after `last`, were begun as one.
bool begun_together(const SeenOp& last, const SeenOp& next);

/// Puts what each device saw, by ascending ends, onto the clock of device 0, and the start of both
/// ends of a transfer where both were there.
/// How far the next device's clock is ahead: both ends of a transfer end at once; of the transfers
/// down and those up the median each, whose mean leaves out how long a receiver sees one last.
/// When both were there: where the two ends begin apart, when the later of them does. Where a
/// recorder wrote the later one down for both, by that rank's clock, the rank is told by what it
/// had just done, and the other was ready when it had done what came before (`blocking`: both did
/// nothing else); without `blocking` the shorter of the two counts. REQUIRES: instructions are
/// below `instructions`.
void align_clocks(std::vector<std::vector<SeenOp>>& seen, std::size_t instructions, bool blocking);

}  // namespace tandem
