#pragma once
// The GPUs that a run is spread over.

#include <memory>
#include <string>
#include <vector>

#include "executor/backend/notice.h"
#include "executor/cuda/communicators.h"
#include "executor/cuda/partition.h"

namespace tandem::cuda {

int count_gpus();

/// Devices of the run are spread over the GPUs in order; those of one GPU get a part of it each, or
/// `notice` takes why not.
std::vector<std::shared_ptr<Partition>> place(std::size_t devices, std::size_t gpus,
                                              const Notice& notice);

/// Transfers and sums reach the memory of other GPUs. Throws AbsentError where they can't.
void connect(int gpus);

/// A name of each, which no other GPU has, whatever process sees it.
std::vector<std::string> gpu_names();

/// Of devices of this process: the GPU of each of `devices`.
std::unique_ptr<CommunicatorGpus> communicator_gpus(const Table<DeviceId, int>& gpus,
                                                    const std::vector<DeviceId>& here);

/// Such as "2 x NVIDIA H200, driver of CUDA 13.0".
std::string describe_gpus(int gpus);

}  // namespace tandem::cuda
