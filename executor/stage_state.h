#pragma once
// StageState: one stage of a run with the memory it works in — its rings of slots, optimizer state
// and sample.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/memory.h"
#include "core/schedule.h"
#include "executor/data.h"
#include "executor/optimizer.h"
#include "executor/slot_ring.h"
#include "executor/stage.h"

namespace tandem {

/// What every stage of a run is made from.
struct StageSetup {
  ModelSpec model;
  std::int32_t microbatch_size = 1;
  std::int32_t microbatches = 1;
  OptimizerConfig optimizer;
  std::uint64_t seed = 0;
  const Data* data = nullptr;
};

template <class B>
class StageState {
 public:
  using T = typename B::Scalar;
  using Ring = SlotRing<typename B::Buffer>;

  /// Allocates everything, and initialises version 0 of the weights.
  StageState(const StageSetup& setup, StageId stage_id, LayerRange layers, const StageSlots& slots,
             B& backend, MemoryMeter& meter)
      : id(stage_id),
        stage(setup.model, layers, setup.microbatch_size,
              mean_loss_scale(setup.model, setup.microbatch_size, setup.microbatches)),
        optimizer(setup.optimizer),
        data(setup.data),
        versions(slots[SlotKind::weights]) {
    const auto allocate = [&](std::int64_t elements) { return backend.allocate(elements); };
    const StageSizes& sizes = stage.sizes();
    const auto ring = [&](SlotKind kind, std::int64_t elements) {
      return Ring(kind, id, slots[kind], elements, meter, allocate);
    };
    weights = ring(SlotKind::weights, sizes.parameters);
    gradients = ring(SlotKind::gradients, sizes.parameters);
    stash = ring(SlotKind::stash, sizes.stash);
    input = ring(SlotKind::input, sizes.boundary);
    output = ring(SlotKind::output, sizes.boundary);
    output_gradient = ring(SlotKind::output_gradient, sizes.boundary);
    input_gradient = ring(SlotKind::input_gradient, sizes.boundary);
    state = backend.allocate(sizes.parameters * optimizer_states(optimizer.kind));
    meter.commit(MemoryClass::optimizer, state.bytes());
    meter.acquire(MemoryClass::optimizer, state.bytes());
    readers.assign(static_cast<std::size_t>(versions), 0);
    stage.initialise(weights.acquire(0), setup.seed);
  }

  /// Microbatch `k` as this stage needs it: null where it is neither first nor last.
  const Sample<T>* sample(std::int64_t k) {
    if (!stage.is_first() && !stage.is_last()) return nullptr;
    data->fill(k, sample_);
    return &sample_;
  }

  const StageId id;
  const Stage<typename B::Kernels> stage;
  const OptimizerConfig optimizer;
  const Data* data;
  const std::int32_t versions;
  Ring weights, gradients, stash, input, output, output_gradient, input_gradient;
  typename B::Buffer state;
  std::vector<std::int64_t>
      readers;  // microbatches in flight that use the version in each weight slot
  std::optional<StageId> above, below;  // neighbours along the model
  bool above_is_here = false, below_is_here = false;
  bool recomputes = false;

 private:
  Sample<T> sample_;
};

}  // namespace tandem
