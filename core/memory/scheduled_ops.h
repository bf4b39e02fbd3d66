#pragma once
// ScheduledOps: the ops of a schedule that is not lowered, for what asks only in which order each
// device computes (core/memory/held_changes.h).

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace tandem {

/// As much of a Program as that needs; device by device, not in one order of all. The schedule must
/// outlive it.
class ScheduledOps {
 public:
  struct Instruction {
    Op op;
  };

  explicit ScheduledOps(const Schedule& schedule) : schedule_(schedule) {
    for (const std::vector<Op>& order : schedule.order) {
      for (const Op& op : order) {
        instructions_.push_back({op});
        ramp_ = std::max(ramp_, op.microbatch / schedule.microbatches);
      }
    }
  }

  const Placement& placement() const { return schedule_.placement; }
  bool forwards_alone() const { return schedule_.forwards_alone; }
  std::int32_t microbatches() const { return schedule_.microbatches; }
  std::int32_t slices() const { return schedule_.slices; }
  std::int32_t slice_of(const Op& op) const { return op.microbatch % schedule_.slices; }
  std::int32_t ramp() const { return ramp_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }

 private:
  const Schedule& schedule_;
  std::vector<Instruction> instructions_;
  std::int32_t ramp_ = 0;
};

}  // namespace tandem
