#pragma once
// How tandem trains a task that a peer trains, too.

#include <cstdint>

#include "core/memory/storage.h"
#include "core/model/model.h"
#include "executor/cpu/products.h"
#include "executor/train.h"
#include "tools/benchmarks/torch_peer.h"

namespace tandem::benchmarks {

/// The usual count of a model's work: 6 a parameter and token, and attention as if it were full.
double flops_of_token(const ModelSpec& model);

struct Way {
  std::uint16_t width = 1;        // devices, each with the whole model and its part of the batch
  std::int32_t microbatches = 1;  // of each
  cpu::Precision precision = cpu::Precision::f32;
  Storage storage = Storage::f32;  // bf16: on GPUs
};

TrainingRun train(Trainer& trainer, const TrainingTask& task, const Way& way, int steps);

/// Seconds of the quickest step but the first.
double best_step(const TrainingRun& run);

}  // namespace tandem::benchmarks
