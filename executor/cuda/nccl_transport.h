#pragma once
// Transfers and sums over NCCL.

#include <functional>
#include <memory>
#include <vector>

#include "executor/cuda/communicator.h"
#include "executor/cuda/gpu_transport.h"

namespace tandem::cuda {

/// Of each plan, its ranks: all of them, for one process drives all devices.
using Communicators = std::vector<std::vector<std::unique_ptr<Communicator>>>;

/// Throws AbsentError where two members of a communicator share a GPU, which NCCL refuses.
void check_one_gpu_each(const CommunicatorPlans& plans, const Table<DeviceId, int>& gpus);

/// Makes them in the order of the plans. `enter` makes a device's GPU the current one.
Communicators make_communicators(const Nccl& library, const CommunicatorPlans& plans,
                                 const std::function<void(DeviceId)>& enter,
                                 const Patience& patience);

}  // namespace tandem::cuda
