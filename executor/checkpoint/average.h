#pragma once
// The mean of the weights of several checkpoints, as a folder of Hugging Face's library.

#include <memory>
#include <span>
#include <string>

#include "executor/checkpoint/checkpoint.h"

namespace tandem {

/// Writes model.safetensors and config.json to `folder`, which must not be there: each number is
/// the mean of those of the checkpoints, in double, rounded once. Throws InputError where they are
/// not of one model, DeviceError where the folder can't be written. REQUIRES: one or more.
void write_average(std::span<const std::unique_ptr<Checkpoint>> checkpoints,
                   const std::string& folder);

}  // namespace tandem
