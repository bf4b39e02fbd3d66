#pragma once
// StashUse: the stash of one microbatch, where its stage works on it; and what all of a device's
// take.

#include <cstdint>

#include "core/memory/memory.h"
#include "executor/run/training_setup.h"
#include "executor/stage/stage_state.h"

namespace tandem {

/// In pieces of its device's pool; of a microbatch that is evicted, in a slot of its own.
template <class B>
struct StashUse {
  StageState<B>& stage;
  std::int64_t microbatch = 0;
  bool is_evicted = false;

  /// Evicted ones have one slot in turn, so that any number tells them apart.
  typename SlotRing<B>::Use evicted() const { return {stage.eviction_buffer, microbatch}; }

  /// Takes what is free, and lets `spans` work on it. Throws DeviceError where nothing is.
  void acquire(auto& spans) const {
    if (is_evicted) {
      spans.stash = evicted().acquire();
    } else {
      spans.pieces = stage.stashes.acquire(stage.id, microbatch, stage.stage.sizes().stash_pieces,
                                           stage.most_stashes);
    }
  }
  /// Lets `spans` work on what is held. Throws DeviceError where nothing is.
  void read(auto& spans) const {
    if (is_evicted) {
      spans.stash = evicted().held();
    } else {
      spans.pieces = stage.stashes.held(stage.id, microbatch);
    }
  }
  void release() const {
    is_evicted ? evicted().release() : stage.stashes.release(stage.id, microbatch);
  }
};

/// The pieces of stashes that each device of a pipeline needs, by their size in elements.
template <class B>
Table<DeviceId, Pieces> stash_pools(const Program& program,
                                    const TrainingSetup<typename B::Kernels::Wide>& setup) {
  Table<ReplicaId, Pieces> pieces;
  for (const StageId stage : program.placement().stage) {
    const Stage<typename B::Kernels> of_layers(setup.stage.model, setup.layers[index(stage)],
                                               setup.stage.microbatch_size, 1.0,
                                               setup.stage.recompute);
    pieces.push_back(of_layers.sizes().pieces_of_stash());
  }
  return stash_pools(program, setup.slots, pieces);
}

}  // namespace tandem
