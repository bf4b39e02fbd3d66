#pragma once
// What a stage brings to a sum over devices.

#include <cstdint>
#include <span>

#include "core/program/run.h"
#include "executor/run/run_state.h"
#include "executor/run/stage_work.h"

namespace tandem {

/// The gradients of the update that a sum serves: all of them, or of what is tied.
template <class B>
std::span<typename B::Kernels::Wide> summed_gradients(const RunState<B>& run_state,
                                                      StageWork<B>& stages,
                                                      const Instance& instance, ReplicaId replica,
                                                      typename B::Stream& stream) {
  StageState<B>& s = stages.state_of(replica);
  const std::int64_t update = run_state.versions.covering_update(replica, instance.microbatch);
  const std::span<typename B::Kernels::Wide> gradients =
      stages.finished_gradients(s, update, stream);
  if (!sums_tied(run_state.program[instance.id].op.kind)) return gradients;
  const TiedRanges& ranges = s.stage.tied();
  return part(gradients, ranges.embedding ? *ranges.embedding : *ranges.head);
}

}  // namespace tandem
