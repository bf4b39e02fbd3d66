#pragma once
// Op: one unit of work in a schedule's loop body.

#include <compare>
#include <cstdint>

#include "core/base/ids.h"
#include "core/schedule/op_kind.h"

namespace tandem {

/// One unit of work in a schedule's loop body. In body b it works on microbatch b·m + `microbatch`,
/// m being the schedule's microbatches a batch; instances outside the run's first and last
/// microbatch are switched off.
struct Op {
  OpKind kind{};
  std::uint8_t group = 0;  // non-zero: one unit with adjacent ops of the same group. None starts
                           // before all have what they need, and none has ended before all have
  ReplicaId replica{};
  std::int32_t microbatch = 0;  // offset, ≥ 0
  std::uint16_t span = 1;       // consecutive microbatches covered, this one last, within one batch
  std::uint16_t staleness = 0;  // weights used: those `staleness` updates of this stage before the
                                // update that will cover the microbatch; 2BW: 1
  friend auto operator<=>(const Op&, const Op&) = default;
};
static_assert(sizeof(Op) == 12);

}  // namespace tandem
