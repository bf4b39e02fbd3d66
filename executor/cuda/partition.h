#pragma once
// Partition: a share of a GPU's multiprocessors, so that several devices of a run on one GPU do not
// take them from one another. By green contexts where driver and GPU have them (12.5 on) and all
// that devices need of one another works between them; else streams share the GPU. Memory bandwidth
// and caches are shared in any case.

#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "executor/backend/stream_use.h"
#include "executor/cuda/runtime/raii.h"

namespace tandem::cuda {

/// Makes streams. Those of transfers and sums have the higher priority.
class Partition {
 public:
  virtual ~Partition() = default;
  virtual OwnedStream make_stream(StreamUse use) = 0;
  virtual int gpu() const = 0;
  /// Its own; 0: all that the GPU has, alone or shared.
  virtual int multiprocessors() const = 0;
};

/// `parts` of the GPU, and why they are not apart; empty where they are, or there is but one.
struct Partitions {
  std::vector<std::shared_ptr<Partition>> parts;
  std::string why_shared;
};
/// Throws LateError where the GPU has failed before, DeviceError where it can't be used at all.
Partitions divide(int gpu, std::size_t parts);

}  // namespace tandem::cuda
