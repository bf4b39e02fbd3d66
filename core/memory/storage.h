#pragma once
// What numbers are stored as while a model is trained, and what its stages take by that.

#include <cstdint>
#include <string_view>

#include "core/memory/memory.h"
#include "core/model/model.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// Of activations and of the weights that products read. With bf16 the weights that are trained are
/// one float copy more, a part of the optimizer's state; gradients of weights, that state,
/// statistics of norms, sums of softmaxes and tokens are float all the same.
enum class Storage : std::uint8_t { f32, bf16 };

/// "f32", "bf16": what `--storage` takes.
std::string_view name(Storage storage);

/// Bytes of a stage's slots for the CPU and GPU executors: layers [first, last), `element` bytes a
/// number.
StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       OptimizerKind optimizer, Recompute recompute, Bytes element = 4);

/// The same with numbers stored so.
StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       OptimizerKind optimizer, Recompute recompute, Storage storage);

}  // namespace tandem
