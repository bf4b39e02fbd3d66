// Profiles measured on GPUs: the passes are the CPU's, timed by events.

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/cpu/products.h"
#include "executor/cuda/backend.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/gpus.h"
#include "executor/cuda/kernels/workspace.h"
#include "executor/cuda/memory_plan.h"
#include "executor/cuda/peer_copy_timing.h"
#include "executor/profile/profile_visits.h"

namespace tandem {
namespace {

/// Throws InfeasibleError where what devices hold is more than is free on their GPU.
void check_free(const std::vector<std::shared_ptr<cuda::Partition>>& places, Bytes each) {
  for (int gpu = 0; gpu <= places.back()->gpu(); ++gpu) {
    const auto devices =
        std::ranges::count_if(places, [gpu](const auto& place) { return place->gpu() == gpu; });
    const Bytes needed = devices * each + cuda::kBesidePlan, free = cuda::free_memory(gpu);
    if (needed <= free) continue;
    throw InfeasibleError(fmt::format("profiling this model needs {} on GPU {}, which has {} free",
                                      print_bytes(needed), gpu, print_bytes(free)));
  }
}

}  // namespace

MeasuredProfile measure_cuda_profile(ProfileRequest request) {
  if (const std::string reason = why_no_cuda(); !reason.empty())
    throw AbsentError(fmt::format("backend cuda: {}; use --backend cpu", reason));
  check_trainable(request.model);
  const int gpus = cuda::count_gpus();
  if (request.busy_devices == 0) request.busy_devices = gpus;
  const auto devices = static_cast<std::size_t>(request.busy_devices);
  const auto used = static_cast<int>(std::min(devices, static_cast<std::size_t>(gpus)));
  const auto places = cuda::place(devices, static_cast<std::size_t>(gpus));
  cuda::connect(used);
  const auto book = std::make_shared<cuda::AlgorithmBook>(std::vector<ProductAlgorithm>(), true);
  const cpu::Precision precision = cpu::product_precision();
  const cuda::KernelSettings kernels{
      .products = {.precision = precision},
      .workspace = cuda::workspace_needed(request.model, std::ranges::max(request.microbatch_sizes),
                                          precision == cpu::Precision::bf16),
      .algorithms = book};
  check_free(places, request.device_bytes + cuda::KernelContext::bytes_of(kernels));
  const auto make = [&](DeviceId device, Wakeup& bell, std::stop_token stop) {
    return std::make_unique<cuda::Backend>(
        cuda::BackendSetup{.partition = places[index(device)], .kernels = {.computation = kernels}},
        bell, std::move(stop));
  };
  Profile profile;
  profile.machine = cuda::describe_gpus(used);
  profile.kernels = fmt::format("cublaslt {}", name(precision));
  profile.model = request.model;
  profile.optimizer = request.optimizer;
  profile.busy_devices = request.busy_devices;
  profile.layers = layer_costs(measure_layers<cuda::Backend>(request, make));
  for (const Bytes bytes : hand_over_sizes(request)) {
    check_stop(request.stop);
    profile.transfers.push_back(
        {bytes, cuda::measure_hand_over(places.front(), places[devices > 1 ? 1 : 0], bytes)});
  }
  profile.instruction_overhead = measure_overhead(*make_cuda_trainer());
  return {std::move(profile), book->all()};
}

}  // namespace tandem
