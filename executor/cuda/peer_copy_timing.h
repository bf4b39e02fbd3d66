#pragma once
// What a hand-over from one device of a run to another takes on GPUs.

#include <memory>

#include "core/base/units.h"
#include "executor/cuda/partition.h"

namespace tandem::cuda {

/// One way, from the start of the copy to the other stream going on: half of a round trip, by
/// events of the first device. The host is ahead by all of it, as in training.
Duration measure_hand_over(const std::shared_ptr<Partition>& from,
                           const std::shared_ptr<Partition>& to, Bytes bytes);

}  // namespace tandem::cuda
