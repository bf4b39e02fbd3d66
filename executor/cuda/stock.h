#pragma once
// What a device's work in flight takes, beside the arena: events, and small memory that is lent and
// taken back. It is made before the first batch, for a GPU may stop for what is made later.

#include <cstddef>
#include <vector>

#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/program/program.h"
#include "executor/run/training_setup.h"

namespace tandem::cuda {

struct Stock {
  struct Pieces {
    std::size_t bytes = 0, count = 0;
  };
  std::size_t events = 0, timed_events = 0;
  std::vector<Pieces> pinned;   // of the host: samples, losses, what the host sees of decisions
  std::vector<Pieces> numbers;  // of the device: sums of squares, decisions
};

/// For a device of a pipeline that has before it as much as it may (most_queued()), and whose GPU
/// has done none of it. `stage_tensors`: how many each stage trains.
Stock stock_of(const Program& program, DeviceId device, const TrainingSetup<float>& setup,
               const Table<StageId, std::size_t>& stage_tensors);

}  // namespace tandem::cuda
