#pragma once
// What a run asks of its program before it is built, and whether the two go together.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/program/program.h"
#include "executor/run/other_ranks.h"
#include "executor/stage/stage_state.h"

namespace tandem {

/// Who decides on updates must be able to.
inline void check_guard(const Program& program, const StageSetup& setup) {
  const bool alone = program.placement().stages() == 1;
  const bool together =
      alone || std::any_of(program.instructions().begin(), program.instructions().end(),
                           [](const auto& each) { return makes_norm(each.op.kind); });
  if (setup.guard.is_global() && !together) {
    throw InputError(fmt::format(
        "schedule {}: clipping by the global norm, and skipping updates that are not finite, need "
        "the norm of all stages' gradients, which this program does not make",
        program.schedule()));
  }
  const bool tied = has_tied_ends(setup.model);
  if (setup.guard.clip == ClipScope::per_stage && tied && !alone) {
    throw InputError(
        "clipping per stage would scale the two ends of a tied embedding differently: clip by the "
        "global norm, or take a model with \"tied\": false");
  }
}

/// Pipelines that the program is one of.
inline std::uint16_t width_of(const Program& program) {
  std::uint16_t width = 1;
  for (const CostKey& key : program.cost_keys()) width = std::max(width, key.width);
  return width;
}

/// Microbatches of one pipeline that an update of each stage covers; all of them where it has none.
inline Table<ReplicaId, std::int32_t> update_spans(const Program& program) {
  Table<ReplicaId, std::int32_t> spans(program.placement().replicas(), program.microbatches());
  for (const Instruction& instruction : program.instructions()) {
    if (makes_version(instruction.op.kind)) spans[instruction.op.replica] = instruction.op.span;
  }
  return spans;
}

/// Which residues modulo the batch each stage processes.
inline Table<ReplicaId, std::vector<bool>> processed_residues(const Program& program) {
  Table<ReplicaId, std::vector<bool>> processes(
      program.placement().replicas(),
      std::vector<bool>(static_cast<std::size_t>(program.microbatches())));
  for (const Instruction& instruction : program.instructions()) {
    if (!makes_output(instruction.op.kind)) continue;
    processes[instruction.op.replica]
             [static_cast<std::size_t>(instruction.op.microbatch % program.microbatches())] = true;
  }
  return processes;
}

/// What ranks can't do: reach into one another's memory.
inline void check_ranks(const Program& program, const OtherRanks& others, std::uint16_t width) {
  const Placement& placement = program.placement();
  for (const Instruction& instruction : program.instructions()) {
    const OpKind kind = instruction.op.kind;
    if (settles_step(kind)) {
      throw InputError(
          "post-validation rolls back in other devices' memory: it needs all devices in one "
          "process");
    }
    if (!moves_stash(kind)) continue;
    const DeviceId device = placement.device[instruction.op.replica];
    for (std::size_t pipeline = 0; pipeline < width; ++pipeline) {
      const std::size_t first = pipeline * placement.devices;
      const auto rank_of = [&](DeviceId each) {
        return others.rank_of(id_at<DeviceId>(first + index(each)));
      };
      if (rank_of(device) == rank_of(placement.partner[device])) continue;
      throw InputError(fmt::format(
          "devices {} and {} keep stashes for each other, in memory that they share: give both to "
          "one rank",
          index(device), index(placement.partner[device])));
    }
  }
}

/// Slices are those of the program.
inline void check_slices(const Program& program, const StageSetup& setup) {
  const auto slices = static_cast<std::int32_t>(std::max<std::size_t>(setup.slices.size(), 1));
  TANDEM_CHECK(slices == program.slices(), slices, program.slices());
}

}  // namespace tandem
