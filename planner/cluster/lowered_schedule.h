#pragma once
// LoweredSchedule: a schedule with all that depends on nothing else, for the many plans that have
// it.

#include <optional>
#include <utility>
#include <vector>

#include "core/lower/lower.h"
#include "core/memory/framework_memory.h"
#include "core/memory/memory.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"
#include "simulator/compiled/compiled_program.h"

namespace tandem {

/// Each of these is worked out when it is asked for, and kept: to be used by one thread.
class LoweredSchedule {
 public:
  explicit LoweredSchedule(Schedule schedule) : schedule_(std::move(schedule)) {}

  const Schedule& schedule() const { return schedule_; }
  const Program& program() const {
    if (!program_) program_ = lower(schedule_);
    return *program_;
  }
  const SlotCounts& slots() const {
    if (!slots_) slots_ = count_slots(program());
    return *slots_;
  }
  const CompiledProgram& compiled() const {
    if (!compiled_) compiled_.emplace(program());
    return *compiled_;
  }
  /// Requires what fullest_moments() does.
  const Table<ReplicaId, std::vector<SlicesHeld>>& fullest() const {
    if (!fullest_) fullest_ = fullest_moments(schedule_);
    return *fullest_;
  }
  /// Whether each stage has a device for itself, and keeps its stashes there.
  bool one_stage_a_device() const {
    const Placement& placement = schedule_.placement;
    return placement.replicas() == placement.devices &&
           placement.stages() == placement.replicas() && placement.partner.empty();
  }
  /// For whoever wants no more of it.
  std::pair<Schedule, Program> take() && {
    program();
    return {std::move(schedule_), std::move(*program_)};
  }

 private:
  Schedule schedule_;
  mutable std::optional<Program> program_ = {};
  mutable std::optional<SlotCounts> slots_ = {};
  mutable std::optional<CompiledProgram> compiled_ = {};
  mutable std::optional<Table<ReplicaId, std::vector<SlicesHeld>>> fullest_ = {};
};

}  // namespace tandem
