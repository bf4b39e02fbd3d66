#pragma once
// measure_links(): what messages between the ranks of a group take.

#include <cstdint>
#include <vector>

#include "core/base/units.h"
#include "executor/ranks/rank_group.h"

namespace tandem {

/// Of messages from one rank to another. Rates are bytes a second of one message at a time, beyond
/// what a small one takes.
struct LinkRate {
  std::int32_t from = 0, to = 0;
  Duration latency{};           // of 64 bytes, one way
  double bytes_per_s = 0.0;     // while all other links rest
  double bytes_per_s_busy = 0;  // while all ranks send to all others
};

/// Of all pairs, each way: on rank 0, by rank; on others nothing. Medians. Takes about a third of a
/// second for each. All ranks call it at once. Throws DeviceError where a rank is lost.
std::vector<LinkRate> measure_links(RankGroup& group);

}  // namespace tandem
