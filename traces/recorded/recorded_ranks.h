#pragma once
// Ranks that do a stage's work together, tensor- or context-parallel, seen as one device.

#include <cstddef>
#include <vector>

#include "core/model/recording.h"

namespace tandem {

struct JoinedRanks {
  std::vector<RecordedOp> ops;  // by ascending ends
  std::size_t left_out = 0;     // ranks that did not do what the others did
};

/// What the ranks of one stage did in one step, each by ascending ends. An op is begun when the
/// last rank has begun it and done when the last has done it: whether ranks wait for one another in
/// each op or not at all, each op of the whole then begins when all that it waited for was done.
/// The rank with the most ops, of several the first, says what there is to do. REQUIRES: there is
/// one.
JoinedRanks join_ranks(const std::vector<std::vector<RecordedOp>>& ranks);

}  // namespace tandem
