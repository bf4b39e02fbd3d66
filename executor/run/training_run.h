#pragma once
// TrainingRun: what train() does, whatever the devices are: memory laid out and made, a machine and
// a thread for each device, joined before it returns.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "executor/backend/wakeup.h"
#include "executor/run/device_machine.h"
#include "executor/run/run_shape.h"
#include "executor/run/step_log.h"
#include "executor/run/training_setup.h"
#include "executor/stage/memory_meter.h"

namespace tandem {

/// Makes the backend of one device, numbered through all pipelines.
template <class B>
using BackendMaker = std::function<std::unique_ptr<B>(DeviceId, Wakeup&, std::stop_token)>;

/// One run on devices of backend B: builds everything, then runs it.
template <class B>
class TrainingRun {
 public:
  using W = typename B::Kernels::Wide;  // what is trained

  /// `transport`: null where devices reach into one another's memory; else it outlives the run.
  TrainingRun(const Program& program, const TrainingSetup<W>& setup, BackendMaker<B> make_backend,
              Transport<B>* transport = nullptr)
      : program_(program),
        setup_(setup),
        make_backend_(std::move(make_backend)),
        initial_(setup.stage.seed),
        start_(setup.start != nullptr ? *setup.start : initial_),
        covered_(update_spans(program)),
        run_(program, setup, width_of(program)),
        log_(
            std::int64_t{program.microbatches()} * run_.width, program.placement().stages(),
            name_tensors(), [this](StepReport step) { end_step(step); },
            loss_weights(setup.stage.model.sequence, setup.stage.slices), start_.batches()) {
    check_guard(program, setup.stage);
    check_slices(program, setup.stage);
    run_.transport = transport;
    if constexpr (State::kHasMaster) check_master(program);
    set_up_run_state();
    stash_pools_ = stash_pools<B>(program, setup);
    for (std::uint16_t pipeline = 0; pipeline < run_.width; ++pipeline) {
      run_.replicas[pipeline].resize(program.placement().replicas());
      for (const DeviceId device : all_ids<DeviceId>(program.placement().devices))
        build(pipeline, device);
      join_neighbours(pipeline);
      add_hosted_stashes(pipeline);
    }
    for (const auto& device : devices_) {
      device->backend->commit();
      for (const auto& replica : device->replicas)
        lasting(*replica, start_.batches()).begin(start_);
    }
    if (setup.keeper != nullptr) {
      for (const StageId stage : all_ids<StageId>(program.placement().stages()))
        shown_state(stage).is_kept = true;
    }
    set_up_collectives();
    if (setup.link_rate) run_.link_emulator = &link_emulator_.emplace(*setup.link_rate);
  }

  TrainingReport<W> run() {
    const std::stop_callback on_stop(stop_.get_token(), [this] { wake_all(); });
    const std::stop_callback user_stop(setup_.stop, [this] { stop_.request_stop(); });
    const std::int64_t segment = setup_.pause_every > 0 ? setup_.pause_every : setup_.batches;
    for (std::int64_t first = start_.batches();
         first < setup_.batches && !stop_.stop_requested();) {
      const std::int64_t last = std::min((first / segment + 1) * segment, setup_.batches);
      run_batches(first, last);
      // Or devices that are to be destroyed would wait for messages that nobody sends.
      if (run_.transport != nullptr && stop_.stop_requested()) run_.transport->abort();
      if (failure_) std::rethrow_exception(failure_);
      const bool pauses = setup_.pause_every > 0 && last % setup_.pause_every == 0;
      if (setup_.on_pause && pauses && !stop_.stop_requested()) show_weights(last);
      first = last;
    }
    if (setup_.keeper != nullptr && !stop_.stop_requested()) keep_state();
    collect();
    return std::move(report_);
  }

 private:
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

  std::size_t devices() const { return program_.placement().devices; }

  void build(std::uint16_t pipeline, DeviceId device) {
    devices_.push_back(std::make_unique<Device>());
    Device& here = *devices_.back();
    here.backend = make_backend_(run_.device_of(pipeline, device), here.wakeup, stop_.get_token());
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
          .updates_a_batch = program_.microbatches() / covered_[replica],
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

  /// Fills names and places of the model's tensors; returns how many there are.
  std::size_t name_tensors() {
    TANDEM_CHECK(setup_.layers.size() == program_.placement().stages(), setup_.layers.size());
    for (const LayerRange layers : setup_.layers) {
      first_tensors_.push_back(run_.tensors.size());
      for (const Tensor& tensor : tensors_of(layers)) run_.tensors.push_back(tensor.name);
    }
    return run_.tensors.size();
  }

  /// In the order and with the offsets of a stage of these layers.
  std::vector<Tensor> tensors_of(LayerRange layers) const {
    return Stage<typename B::Kernels>(setup_.stage.model, layers, setup_.stage.microbatch_size, 1.0)
        .parameters();
  }

  void join_neighbours(std::uint16_t pipeline) {
    const Table<ReplicaId, std::vector<bool>> processes = processed_residues(program_);
    for (const Placement::Edge& edge : program_.placement().edges) {
      std::vector<bool> both = processes[edge.from];
      for (std::size_t residue = 0; residue < both.size(); ++residue)
        both[residue] = both[residue] && processes[edge.to][residue];
      run_.replicas[pipeline][edge.from]->join_below(*run_.replicas[pipeline][edge.to], both);
    }
    for (const Instruction& instruction : program_.instructions()) {
      State& state = *run_.replicas[pipeline][instruction.op.replica];
      if (repeats(instruction.op.kind)) state.recomputes = true;
      if (settles_step(instruction.op.kind)) state.validates = true;
    }
  }

  void add_hosted_stashes(std::uint16_t pipeline) {
    for (State* state : run_.replicas[pipeline]) {
      const std::int32_t hosted = setup_.slots[state->id][SlotKind::hosted_stash];
      if (hosted == 0) continue;
      const DeviceId partner = program_.placement().partner[state->place.device];
      Device& there = *devices_[index(run_.device_of(pipeline, partner))];
      state->add_hosted_stashes(hosted, *there.backend, there.meter);
    }
  }

  void set_up_collectives() {
    const Placement& placement = program_.placement();
    for (const InstructionId id : program_.order()) {
      const Op& op = program_[id].op;
      if (!is_collective(op.kind)) continue;
      const StageId stage = placement.stage[op.replica];
      if (sums_replicas(op.kind)) {
        add_collective(0, id, placement.replicas_of(stage).size() * run_.width);
        continue;
      }
      if (makes_norm(op.kind)) {
        add_norm_collectives(id);
        continue;
      }
      for (std::uint16_t pipeline = 0; pipeline < run_.width; ++pipeline)
        add_collective(pipeline, id, placement.replicas_tied_with(op.replica).size());
    }
  }

  void add_collective(std::uint16_t pipeline, InstructionId id, std::size_t participants) {
    run_.collectives.emplace(std::pair{pipeline, id},
                             std::make_unique<Collective<B>>(participants));
  }

  void add_norm_collectives(InstructionId id) {
    DecideNumbers numbers = run_.decide_numbers;
    numbers.steps_before = static_cast<double>(common_steps(run_.replicas[0]));
    for (std::uint16_t pipeline = 0; pipeline < run_.width; ++pipeline) {
      run_.norm_collectives.emplace(
          std::pair{pipeline, id},
          std::make_unique<NormCollective<B>>(numbers, program_.placement().replicas(),
                                              run_.tensors.size()));
      for (State* state : run_.replicas[pipeline]) {
        const Placement& placement = program_.placement();
        state->decides_alone = false;
        state->brings_squares =
            placement.replicas_of(placement.stage[state->id]).front() == state->id;
      }
    }
  }

  void set_up_run_state() {
    run_.wake = [this](DeviceId device) { devices_[index(device)]->wakeup.wake(); };
    run_.on_loss = [this](std::int64_t sample, double loss, auto at) {
      log_.add_loss(sample, loss, at);
    };
    run_.on_norm = [this](const State& state, std::int64_t update, const UpdateSeen& seen) {
      if (is_logged(state, update))
        log_.add_update(update / state.place.updates_a_batch, state.place.first_tensor, seen);
    };
    if (!setup_.on_update) return;
    run_.on_update = [this](const UpdateView<W>& update) {
      const std::lock_guard lock(mutex_);
      setup_.on_update(update);
    };
  }

  /// The last update of a batch is logged, of a stage's first replica in the first pipeline: all
  /// have the same.
  bool is_logged(const State& state, std::int64_t update) const {
    const Placement& placement = program_.placement();
    const std::int64_t per_batch = state.place.updates_a_batch;
    return state.place.pipeline == 0 &&
           placement.replicas_of(placement.stage[state.id]).front() == state.id &&
           update % per_batch == per_batch - 1;
  }

  void end_step(StepReport step) {
    step.since_start = step.at - run_.start;
    step.losses_since_start = step.losses_at - run_.start;
    if (setup_.on_step) setup_.on_step(step);
  }

  /// All devices run the batches, and end them.
  void run_batches(std::int64_t first, std::int64_t last) {
    std::latch ready(static_cast<std::ptrdiff_t>(devices_.size()) + 1);
    {
      std::optional<Watchdog> watchdog;
      std::vector<std::jthread> threads;  // joined first; the watchdog goes last
      try {
        for (const auto& device : devices_) {
          threads.emplace_back([this, &device, &ready, first, last] {
            ready.arrive_and_wait();
            run_device(*device, first, last);
          });
        }
        watch(watchdog);
      } catch (...) {
        keep_failure(std::current_exception());
        ready.count_down(std::ssize(devices_) - std::ssize(threads));
      }
      run_.start = std::chrono::steady_clock::now() - trained_;
      ready.arrive_and_wait();
    }
    trained_ = std::chrono::steady_clock::now() - run_.start;
  }

  void run_device(Device& device, std::int64_t first, std::int64_t last) {
    DeviceMachine<B>& machine = *device.machine;
    try {
      tandem::run(program_, machine.slice(), last, machine, first);
      machine.drain();
    } catch (const Stopped&) {
    } catch (const DeviceError& error) {
      keep_failure(std::make_exception_ptr(DeviceError(machine.log().describe_failure(error))));
    } catch (...) {
      keep_failure(std::current_exception());
    }
  }

  void watch(std::optional<Watchdog>& watchdog) {
    if (setup_.watchdog <= Duration::zero()) return;
    std::vector<const Progress*> progress;
    for (const auto& device : devices_) progress.push_back(&device->machine->log().progress());
    watchdog.emplace(Watchdog::Setup{
        .devices = std::move(progress),
        .limit = setup_.watchdog,
        .on_stall = [this](const Progress* culprit, Duration waited) { stall(culprit, waited); },
        .grace = std::min<Duration>(10 * setup_.watchdog, std::chrono::seconds(5)),
        .on_stuck = [this] { end_stuck(); }});
  }

  void stall(const Progress* culprit, Duration waited) {
    std::string who = "deadlock: every device is waiting";
    for (const auto& device : devices_) {
      if (&device->machine->log().progress() == culprit)
        who = device->machine->log().describe_last_work() + ": does not end";
    }
    stall_ = fmt::format("{}; nothing has ended anywhere for {:.1f} s", who, to_seconds(waited));
    keep_failure(std::make_exception_ptr(DeviceError(stall_)));
  }

  /// The thread can't be ended but with the process.
  void end_stuck() {
    if (!setup_.on_stuck) throw DeviceError(stall_);
    setup_.on_stuck(stall_);
    std::_Exit(1);
  }

  void keep_failure(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(failure);
    }
    stop_.request_stop();
  }

  void wake_all() {
    for (const auto& device : devices_) device->wakeup.wake();
  }

  static std::int64_t newest_version(const State& state, std::int64_t batches) {
    return batches * state.place.updates_a_batch;
  }
  LastingState<B> lasting(State& state, std::int64_t batches) {
    return LastingState<B>(state, backend_of(state), newest_version(state, batches));
  }
  B& backend_of(const State& state) const {
    return *devices_[index(run_.device_of(state.place.pipeline, state.place.device))]->backend;
  }

  State& shown_state(StageId stage) const {
    return *run_.replicas[0][shown_replica(program_, setup_.slots, stage)];
  }

  /// At the end of the run: all planes of all stages.
  void keep_state() const {
    if (!setup_.keeper->wants(setup_.batches)) return;
    for (const StageId stage : all_ids<StageId>(program_.placement().stages())) {
      State& state = shown_state(stage);
      show_state(state, backend_of(state), newest_version(state, setup_.batches), *setup_.keeper);
    }
  }

  using Fetched = decltype(std::declval<B&>().fetch(std::span<const W>()));

  /// Of each stage, when `batches` have ended: all its replicas have the same.
  std::vector<std::pair<LayerRange, Fetched>> newest_weights(std::int64_t batches) const {
    const Placement& placement = program_.placement();
    std::vector<std::pair<LayerRange, Fetched>> stages;
    for (const StageId stage : all_ids<StageId>(placement.stages())) {
      State& state = *run_.replicas[0][placement.replicas_of(stage).front()];
      const auto newest = std::span<const W>(state.trained(newest_version(state, batches)));
      stages.emplace_back(state.place.layers, backend_of(state).fetch(newest));
    }
    return stages;
  }

  void show_weights(std::int64_t batches) const {
    const auto fetched = newest_weights(batches);
    std::vector<StageWeights<W>> stages;
    for (const auto& [layers, values] : fetched) stages.push_back({layers, values.span()});
    setup_.on_pause(batches, stages);
  }

  void collect() {
    report_.losses = log_.take_losses();
    report_.interrupted = setup_.stop.stop_requested();
    report_.timelines.resize(run_.width);
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const Device& device = *devices_[i];
      Timeline& timeline = report_.timelines[i / devices()];
      timeline.clock = Clock::measured;
      const std::vector<Span>& spans = device.machine->log().spans();
      timeline.spans.insert(timeline.spans.end(), spans.begin(), spans.end());
      const std::vector<LedgerEntry>& ledger = device.machine->ledger();
      report_.ledger.insert(report_.ledger.end(), ledger.begin(), ledger.end());
      report_.high_water.push_back(device.meter.high_water());
      report_.peak_held.push_back(device.meter.peak_held());
      report_.workspace.push_back(device.backend->workspace_bytes());
    }
    if (report_.interrupted) return;
    for (const auto& [layers, fetched] : newest_weights(setup_.batches)) {
      for (const Tensor& tensor : tensors_of(layers)) {
        const auto values = fetched.span().subspan(static_cast<std::size_t>(tensor.offset),
                                                   static_cast<std::size_t>(tensor.size()));
        report_.weights.push_back({tensor.name, {values.begin(), values.end()}});
      }
    }
  }

  const Program& program_;
  const TrainingSetup<W>& setup_;
  const BackendMaker<B> make_backend_;
  const InitialWeights<W> initial_;
  const TrainingStart<W>& start_;
  std::stop_source stop_;
  const Table<ReplicaId, std::int32_t> covered_;
  Table<StageId, std::size_t> first_tensors_;
  RunState<B> run_;
  StepLog log_;
  Table<DeviceId, Pieces> stash_pools_;           // of a pipeline, in elements
  std::vector<std::unique_ptr<Device>> devices_;  // of all pipelines, one after another
  std::optional<LinkEmulator> link_emulator_;     // after the devices that it wakes: it ends first
  TrainingReport<W> report_;
  Duration trained_{};  // pauses apart
  std::string stall_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace tandem
