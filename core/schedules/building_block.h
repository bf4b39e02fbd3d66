#pragma once
// Building blocks (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362): the slots of
// one microbatch on all devices of a V, repeated for each.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedules/v_grid.h"

namespace tandem {

/// Slots from one microbatch to the next: the ops of one on a device.
inline constexpr std::size_t kBlockPeriod = 6;

/// The slots of microbatch 0 on a device, by leg; those of the weight gradients are what is left.
using BlockRow = std::array<std::int64_t, kVLegs>;
using Block = std::vector<BlockRow>;  // of the devices

/// REQUIRES: on each device slots that differ modulo the period, an op behind its source.
VGrid repeated(const Block& block, std::int32_t microbatches);

/// Moves into the idle slots of the filling and the draining phase what comes later, first with the
/// weight gradients where they stand, then with those of the draining phase where there is room.
/// No device then holds activations of more than `cap` chunks. REQUIRES: none does before.
VGrid reordered(VGrid grid, std::int32_t microbatches, std::int32_t cap);

/// The block for so many microbatches with its ends written anew: the filling phase holds the peak
/// before its first backward on every device, the draining phase ends with the first chunk's
/// backwards every second slot. No device holds activations of more than `cap` chunks. Empty: it
/// doesn't fit, or its ends can't be written so. (Section 3.3 and its authors' generator.)
std::optional<VGrid> rewritten(const Block& block, std::int32_t microbatches, std::int32_t cap);

}  // namespace tandem
