#pragma once
// The ends of a repeated building block written anew: the filling phase holds the peak before its
// first backward on every device, the draining phase ends with the first chunk's backwards every
// second slot.

#include <cstdint>
#include <optional>

#include "core/schedules/building_block.h"

namespace tandem {

/// The block for so many microbatches, no device holding activations of more than `cap` chunks.
/// Empty: it doesn't fit, or its ends can't be written so. (Pipeline Parallelism with Controllable
/// Memory, arXiv 2405.15362, section 3.3 and its authors' generator.)
std::optional<VGrid> rewritten(const Block& block, std::int32_t microbatches, std::int32_t cap);

}  // namespace tandem
