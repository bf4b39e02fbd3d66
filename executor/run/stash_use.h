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
      const auto& shape = stage.of_text ? stage.stage : stage.stage_of(microbatch);
      spans.pieces = stage.stashes.acquire(stage.id, microbatch, shape.sizes().stash_pieces,
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
  OfSlices<StashPieces> pieces;
  for (const StageId stage : program.placement().stage) {
    std::vector<StashPieces> of_slices;
    for (const auto& shape :
         stage_shapes<typename B::Kernels>(setup.stage, setup.layers[index(stage)], 1.0)) {
      of_slices.push_back(shape.sizes().pieces());
    }
    pieces.push_back(std::move(of_slices));
  }
  return stash_pools(program, setup.slots, pieces);
}

}  // namespace tandem
