#pragma once
// The type that numbers are stored in while a model is trained, and the bytes that follow from it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/memory/memory.h"
#include "core/model/model.h"
#include "core/model/slice_lengths.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// The type of activations and of the weights that products read. With bf16 the optimizer's state
/// holds a float copy of the weights, which is trained. Gradients of weights, the optimizer's
/// state, statistics of norms, sums of softmaxes and tokens are float either way.
enum class Storage : std::uint8_t { f32, bf16 };

/// "f32", "bf16": what `--storage` takes.
std::string_view name(Storage storage);

/// Bytes of a stage's slots for the CPU and GPU executors: layers [first, last), `element` bytes a
/// number.
StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       Optimizer optimizer, Recompute recompute, Bytes element = 4);

/// The same with numbers stored so. `slices`: of the sequences, where they are not whole.
StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       Optimizer optimizer, Recompute recompute, Storage storage,
                       const std::vector<SequencePart>& slices = {});

}  // namespace tandem
