#pragma once
// WeightVersions: which version of its stage's weights an instance reads or makes, counted over the
// whole run.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/table.h"
#include "core/program/program.h"
#include "core/program/run.h"

namespace tandem {

/// Version 0 is the initial one; the u-th update of a stage, from 0, makes version u + 1. For one
/// update a batch, an op that is `staleness` stale reads version max(batch − staleness, 0): 2BW's
/// rule with staleness 1, vanilla with 0. A program of forwards alone has version 0 only.
class WeightVersions {
 public:
  explicit WeightVersions(const Program& program);

  /// The number, from 0, of the update of `replica` that covers `microbatch` (counted from the
  /// start of the run). Of a stage without updates it is the batch.
  std::int64_t covering_update(ReplicaId replica, std::int64_t microbatch) const;

  /// The version that a forward, recomputation or backward reads; the one that an update makes;
  /// none for other kinds.
  std::optional<std::int64_t> operator()(const Instance& instance) const;

 private:
  struct Reader {
    OpKind kind;
    ReplicaId replica;
    std::int32_t staleness;
  };

  std::int32_t microbatches_;
  bool forwards_alone_;
  Table<ReplicaId, std::vector<std::int32_t>>
      last_covered_;  // residues, ascending, one an update of a body
  Table<InstructionId, Reader> readers_;
};

}  // namespace tandem
