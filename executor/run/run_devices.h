#pragma once
// RunDevices: the devices of a run that this process runs, with the memory that they work in, laid
// out and made.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "executor/backend/wakeup.h"
#include "executor/run/device_machine.h"
#include "executor/run/run_shape.h"
#include "executor/run/run_state.h"
#include "executor/stage/lasting_state.h"
#include "executor/stage/memory_meter.h"

namespace tandem {

/// Makes the backend of one device, numbered through all pipelines.
template <class B>
using BackendMaker = std::function<std::unique_ptr<B>(DeviceId, Wakeup&, std::stop_token)>;

template <class B>
class RunDevices {
 public:
  using W = typename B::Kernels::Wide;
  using State = StageState<B>;

  /// Everything that a device's thread needs.
  struct Device {
    Wakeup wakeup;
    std::unique_ptr<B> backend;
    MemoryMeter meter;
    StashPool<B> stashes;
    std::vector<std::unique_ptr<State>> replicas;
    std::unique_ptr<DeviceMachine<B>> machine;
  };

  /// `run` outlives this.
  RunDevices(RunState<B>& run, BackendMaker<B> make_backend)
      : run_(run),
        program_(run.program),
        setup_(run.setup),
        make_backend_(std::move(make_backend)),
        covered_(update_spans(run.program)) {
    name_tensors();
  }

  /// Makes them, as a run begins.
  void build(const std::stop_token& stop, const TrainingStart<W>& start) {
    stash_pools_ = stash_pools<B>(program_, setup_);
    devices_.resize(std::size_t{program_.placement().devices} * run_.width);
    for (std::uint16_t pipeline = 0; pipeline < run_.width; ++pipeline) {
      run_.replicas[pipeline].resize(program_.placement().replicas());
      for (const DeviceId device : all_ids<DeviceId>(program_.placement().devices)) {
        if (run_.runs_here(run_.device_of(pipeline, device))) build_one(pipeline, device, stop);
      }
      note_kinds(pipeline);
      add_hosted_stashes(pipeline);
    }
    for_each([&](DeviceId, Device& device) {
      device.backend->commit();
      for (const auto& replica : device.replicas) lasting(*replica, start.batches()).begin(start);
    });
  }

  /// Of all pipelines and ranks.
  std::size_t size() const { return devices_.size(); }
  /// Those here: `visit(number through all pipelines, device)`.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i] != nullptr) visit(id_at<DeviceId>(i), *devices_[i]);
    }
  }
  void wake(DeviceId device) const {
    if (const auto& here = devices_[index(device)]) here->wakeup.wake();
  }
  B& backend_of(const State& state) const {
    return *devices_[index(run_.device_of(state.place.pipeline, state.place.device))]->backend;
  }

  LastingState<B> lasting(State& state, std::int64_t batches) {
    return LastingState<B>(state, backend_of(state), newest_version(state, batches));
  }

  /// In the order and with the offsets of a stage of these layers.
  std::vector<Tensor> tensors_of(LayerRange layers) const {
    return Stage<typename B::Kernels>(setup_.stage.model, layers, setup_.stage.microbatch_size, 1.0)
        .parameters();
  }
  /// When `batches` have ended.
  static std::int64_t newest_version(const State& state, std::int64_t batches) {
    return batches * state.place.updates_a_batch;
  }

 private:
  void build_one(std::uint16_t pipeline, DeviceId device, const std::stop_token& stop) {
    auto& made = devices_[index(run_.device_of(pipeline, device))];
    made = std::make_unique<Device>();
    Device& here = *made;
    here.backend = make_backend_(run_.device_of(pipeline, device), here.wakeup, stop);
    const Placement& placement = program_.placement();
    const ReplicaId last = placement.replicas_of(id_at<StageId>(placement.stages() - 1)).front();
    here.stashes = {stash_pools_[device], here.meter, [&here](std::int64_t elements) {
                      return here.backend->template allocate<typename B::Scalar>(elements);
                    }};
    std::int64_t scratch = 0;
    for (const ReplicaId replica : placement.replicas_on(device)) {
      const StagePlace place{
          .pipeline = pipeline,
          .id = replica,
          .device = device,
          .layers = setup_.layers[index(placement.stage[replica])],
          .mixes_versions = mixes_versions(program_.version_rule()),
          .reading = program_.reading(replica),
          .first_tensor = first_tensors_[placement.stage[replica]],
          .updates_a_batch =
              program_.forwards_alone() ? 0 : program_.microbatches() / covered_[replica],
          .loss_scale = mean_loss_scale(setup_.stage.model, setup_.stage.microbatch_size,
                                        covered_[last] / program_.slices() * run_.width),
          .gradient_factor = static_cast<double>(covered_[last]) / covered_[replica]};
      here.replicas.push_back(std::make_unique<State>(setup_.stage, place, setup_.slots[replica],
                                                      *here.backend, here.meter, here.stashes));
      run_.replicas[pipeline][replica] = here.replicas.back().get();
      scratch = std::max(scratch, here.replicas.back()->scratch_size());
    }
    auto memory = here.backend->template allocate<typename B::Scalar>(scratch);
    here.meter.commit(&MemoryByClass::buffers, memory.bytes());
    here.meter.acquire(&MemoryByClass::buffers, memory.bytes());
    here.machine = std::make_unique<DeviceMachine<B>>(run_, pipeline, device, *here.backend,
                                                      std::move(memory));
  }

  /// Fills names and places of the model's tensors.
  void name_tensors() {
    TANDEM_CHECK(setup_.layers.size() == program_.placement().stages(), setup_.layers.size());
    for (const LayerRange layers : setup_.layers) {
      first_tensors_.push_back(run_.tensors.size());
      for (const Tensor& tensor : tensors_of(layers)) run_.tensors.push_back(tensor.name);
    }
  }

  void note_kinds(std::uint16_t pipeline) {
    for (const Instruction& instruction : program_.instructions()) {
      State* const state = run_.replicas[pipeline][instruction.op.replica];
      if (state == nullptr) continue;
      if (repeats(instruction.op.kind) || program_.forwards_alone()) state->recomputes = true;
      if (settles_step(instruction.op.kind)) state->validates = true;
    }
  }

  void add_hosted_stashes(std::uint16_t pipeline) {
    for (State* state : run_.replicas[pipeline]) {
      if (state == nullptr) continue;
      const std::int32_t hosted = setup_.slots[state->id][SlotKind::hosted_stash];
      if (hosted == 0) continue;
      const DeviceId partner = program_.placement().partner[state->place.device];
      Device& there = *devices_[index(run_.device_of(pipeline, partner))];
      state->add_hosted_stashes(hosted, *there.backend, there.meter);
    }
  }

  RunState<B>& run_;
  const Program& program_;
  const TrainingSetup<W>& setup_;
  const BackendMaker<B> make_backend_;
  const Table<ReplicaId, std::int32_t> covered_;
  Table<StageId, std::size_t> first_tensors_;
  Table<DeviceId, Pieces> stash_pools_;  // of a pipeline, in elements
  std::vector<std::unique_ptr<Device>>
      devices_;  // of all pipelines, one after another; null: another rank runs it
};

}  // namespace tandem
