// Training on GPUs, and whether there are any.

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/memory/memory.h"
#include "core/memory/storage.h"
#include "core/model/model.h"
#include "core/model/slice_lengths.h"
#include "executor/cpu/products.h"
#include "executor/cuda/backend.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/gpus.h"
#include "executor/cuda/kernels/attention.h"
#include "executor/cuda/kernels/fused_attention.h"
#include "executor/cuda/kernels/workspace.h"
#include "executor/cuda/memory_plan.h"
#include "executor/cuda/nccl.h"
#include "executor/cuda/nccl_transport.h"
#include "executor/cuda/stock.h"
#include "executor/run/training_run.h"

namespace tandem {

namespace {

using cuda::check;
using Places = Table<DeviceId, std::shared_ptr<cuda::Partition>>;  // null: another rank runs it

void check_supported(const Program& program, const TrainingSetup<float>& setup) {
  const auto reaches = [](const auto& each) {
    return moves_stash(each.op.kind) || settles_step(each.op.kind);
  };
  if (setup.by_messages && std::ranges::any_of(program.instructions(), reaches)) {
    throw InputError(
        "evicted stashes and rollbacks are written into another device's memory, which is not for "
        "--transport nccl; use --transport peer");
  }
  if (setup.by_messages && setup.stage.storage == Storage::bf16)
    throw InputError("storage bf16 is not for --transport nccl; use --transport peer");
  if (setup.stage.text != nullptr)
    throw InputError("a text is gone on with on the CPU alone: attention on GPUs keeps no keys");
  if (std::ssize(setup.stage.slices) > cuda::kMostSlices) {
    throw InputError(fmt::format("sequences of {} slices: GPUs take at most {}",
                                 setup.stage.slices.size(), cuda::kMostSlices));
  }
  if (setup.link_rate) {
    throw InputError(
        "links of a chosen rate are the CPU's: on GPUs what is sent takes as long as it takes");
  }
}

cuda::StreamKernels stream_kernels(const StageSetup& stage) {
  const cpu::ProductRequest products{.precision = cpu::product_precision()};
  return {.computation = {.products = products,
                          .workspace = cuda::workspace_needed(
                              stage.model, stage.microbatch_size, stage.optimizer.kind,
                              products.precision == cpu::Precision::bf16),
                          .fused_attention = cuda::fused_attention_of(
                              stage.model, {stage.microbatch_size}, stage.storage)},
          .sums_workspace = cuda::sums_workspace_needed(stage.model)};
}

Table<DeviceId, Bytes> workspace_of(const Program& program, const cuda::StreamKernels& kernels) {
  using cuda::KernelContext;
  return cuda::planned_workspace(
      program, {.sums = KernelContext::bytes_of(kernels.of(StreamUse::sums)),
                .computation = KernelContext::bytes_of(kernels.of(StreamUse::computation))});
}

/// Of each device of a pipeline.
std::vector<cuda::Stock> stocks_of(const Program& program, const TrainingSetup<float>& setup) {
  Table<StageId, std::size_t> tensors;
  for (const LayerRange layers : setup.layers) {
    const Stage<cuda::Kernels<float>> stage(setup.stage.model, layers, setup.stage.microbatch_size,
                                            1.0);
    tensors.push_back(stage.parameters().size());
  }
  std::vector<cuda::Stock> stocks;
  for (const DeviceId device : all_ids<DeviceId>(program.placement().devices))
    stocks.push_back(cuda::stock_of(program, device, setup, tensors));
  return stocks;
}

/// Shares of all GPUs, which reach one another's memory.
Places shared_places(std::size_t devices, const TrainingSetup<float>& setup) {
  TANDEM_CHECK(setup.others == nullptr);
  const auto gpus = static_cast<std::size_t>(cuda::count_gpus());
  Places places;
  for (auto& place : cuda::place(devices, gpus, setup.on_notice))
    places.push_back(std::move(place));
  cuda::connect(static_cast<int>(std::min(devices, gpus)));
  return places;
}

/// One a GPU.
Places places_on(const Table<DeviceId, int>& gpus, const std::vector<DeviceId>& here) {
  Places places(gpus.size());
  for (const DeviceId device : here) places[device] = cuda::divide(gpus[device], 1).parts.front();
  return places;
}

/// Throws InfeasibleError where the run does not fit into what is free now.
void check_room(const Program& program, const TrainingSetup<float>& setup, const Places& places,
                const Table<DeviceId, Bytes>& workspace) {
  Table<ReplicaId, StageBytes> bytes;
  for (const StageId stage : program.placement().stage) {
    bytes.push_back(stage_bytes(setup.stage.model, setup.layers[index(stage)],
                                setup.stage.microbatch_size, setup.stage.optimizer.optimizer(),
                                setup.stage.recompute, setup.stage.storage,
                                parts_of(setup.stage.slices)));
  }
  const Table<DeviceId, MemoryByClass> slots = memory_by_class(program, setup.slots, bytes);
  std::vector<cuda::PlannedDevice> devices;
  std::vector<Bytes> free;
  for (const DeviceId each : ids(places)) {
    if (places[each] == nullptr) continue;
    const auto gpu = static_cast<std::size_t>(places[each]->gpu());
    const auto device = id_at<DeviceId>(index(each) % slots.size());
    devices.push_back({.gpu = gpu, .slots = slots[device], .workspace = workspace[device]});
    if (gpu >= free.size()) free.resize(gpu + 1);
    if (free[gpu] == 0) free[gpu] = cuda::free_memory(places[each]->gpu());
  }
  cuda::check_room(devices, free);
}

/// NCCL between this process's devices and all others; null where devices reach into one another's
/// memory. `gpus` are those of its devices.
class Messages {
 public:
  using Transport = cuda::NcclTransport<cuda::Backend>;

  Messages(const Program& program, const TrainingSetup<float>& setup,
           const Table<DeviceId, int>& gpus, const std::vector<DeviceId>& here)
      : gpus_(cuda::communicator_gpus(gpus, here)),
        transport_(
            cuda::nccl(), CommunicatorPlans(program, width_of(program)), *gpus_,
            {.devices = gpus.size(),
             .others = setup.others,
             .notices = {.note = setup.on_notice, .stuck = setup.on_stuck}},
            [](DeviceId, cuda::Backend::Stream& stream) { return cuda::Backend::handle(stream); }) {
  }
  Transport& transport() { return transport_; }

 private:
  std::unique_ptr<cuda::CommunicatorGpus> gpus_;
  Transport transport_;
};

std::vector<DeviceId> devices_here(std::size_t devices, const OtherRanks* others) {
  std::vector<DeviceId> here;
  for (const DeviceId device : all_ids<DeviceId>(devices)) {
    if (others == nullptr || others->runs_here(device)) here.push_back(device);
  }
  return here;
}

class CudaTrainer : public Trainer {
 public:
  TrainingReport<float> train(const Program& program, const TrainingSetup<float>& setup) override {
    check_trainable(setup.stage.model);
    check_supported(program, setup);
    const std::size_t devices = std::size_t{program.placement().devices} * width_of(program);
    const std::vector<DeviceId> here = devices_here(devices, setup.others);
    Table<DeviceId, int> gpus;  // of each device, where they send messages
    if (setup.by_messages) {
      prepare_nccl();
      cuda::nccl();  // or what it lacks would be said after all else
      gpus = cuda::choose_gpus(devices, cuda::gpu_names(), setup.others);
    }
    const Places places = setup.by_messages ? places_on(gpus, here) : shared_places(devices, setup);
    cuda::StreamKernels kernels = stream_kernels(setup.stage);
    kernels.computation.algorithms =
        std::make_shared<cuda::AlgorithmBook>(setup.product_algorithms, false, setup.on_notice);
    check_room(program, setup, places, workspace_of(program, kernels));
    const auto streams = std::make_shared<cuda::RunStreams>();
    const std::vector<cuda::Stock> stocks = stocks_of(program, setup);
    std::optional<Messages> messages;
    if (setup.by_messages) messages.emplace(program, setup, gpus, here);
    const auto set_up = [&](DeviceId device, const std::stop_token& stop) {
      cuda::BackendSetup of_device{.partition = places[device],
                                   .kernels = kernels,
                                   .keeps_times = setup.keep_timeline,
                                   .is_reached = !setup.by_messages,
                                   .stock = stocks[index(device) % stocks.size()],
                                   .streams = streams};
      if (messages) {
        messages->transport().heed(stop);
        of_device.look = [&messages, device] { messages->transport().look(device); };
      }
      return of_device;
    };
    if (setup.stage.storage == Storage::bf16)
      return run<cuda::Bf16Backend>(program, setup, set_up, nullptr);
    TrainingReport<float> report =
        run<cuda::Backend>(program, setup, set_up, messages ? &messages->transport() : nullptr);
    if (messages && !report.interrupted) messages->transport().close();
    return report;
  }

  Table<DeviceId, Bytes> planned_workspace(const Program& program,
                                           const StageSetup& stage) const override {
    return workspace_of(program, stream_kernels(stage));
  }

 private:
  /// `set_up`: of a device, and of what stops it, the setup of its backend.
  template <class B>
  static TrainingReport<float> run(const Program& program, const TrainingSetup<float>& setup,
                                   const auto& set_up, Transport<B>* transport) {
    const auto make = [&](DeviceId device, Wakeup& wakeup, std::stop_token stop) {
      cuda::BackendSetup of_device = set_up(device, stop);
      return std::make_unique<B>(std::move(of_device), wakeup, std::move(stop));
    };
    return TrainingRun<B>(program, setup, make, transport).run();
  }
};

}  // namespace

std::string why_no_cuda() {
  // As many queues of the hardware as it has: streams that share one wait for one another. Read at
  // the first call of CUDA's.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int driver = 0, runtime = 0, count = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver == 0) return "no GPU: there is no driver of NVIDIA's";
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the driver knows CUDA {}.{}, this build is of {}.{}", driver / 1000,
                       driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  }
  if (status != cudaSuccess) return fmt::format("no GPU: {}", cudaGetErrorString(status));
  return count > 0 ? "" : "no GPU";
}

FoundLibrary find_cudnn() {
  try {
    return {.version = cuda::cudnn_version()};
  } catch (const AbsentError& error) {
    return {.why_absent = error.what()};
  }
}

std::unique_ptr<Trainer> make_cuda_trainer() {
  if (const std::string reason = why_no_cuda(); !reason.empty())
    throw AbsentError(fmt::format("backend cuda: {}; use --backend cpu", reason));
  return std::make_unique<CudaTrainer>();
}

}  // namespace tandem
