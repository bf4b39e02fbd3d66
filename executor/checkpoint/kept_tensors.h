#pragma once
// Which planes of which tensors a checkpoint of a run has.

#include <span>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"
#include "executor/stage/plane.h"

namespace tandem {

struct KeptTensor {
  Tensor tensor;
  std::vector<Plane> planes;
};

/// Of each tensor of the model, in its order. `layers`: of each stage.
std::vector<KeptTensor> kept_tensors(const Program& program, const SlotCounts& slots,
                                     const ModelSpec& model, std::span<const LayerRange> layers,
                                     Optimizer optimizer);

/// Of the copy that a checkpoint is written from, however large a model is.
double copied_bytes(const ModelSpec& model, const std::vector<KeptTensor>& kept);

}  // namespace tandem
