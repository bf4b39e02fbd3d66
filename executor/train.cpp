#include "executor/train.h"

#include <algorithm>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "executor/cpu/backend.h"

namespace tandem {

namespace {

void check_runnable(const Program& program) {
  const Placement& placement = program.placement();
  if (placement.parts() != placement.stages()) {
    throw InputError(fmt::format(
        "schedule {} has replicated stages, which this version simulates but does not train",
        program.schedule()));
  }
  for (const CostKey& key : program.cost_keys()) {
    if (key.width > 1)
      throw InputError("pipelines of width > 1 are simulated but not trained in this version");
    if (key.kind == OpKind::backward_input || key.kind == OpKind::backward_weight) {
      throw InputError(fmt::format(
          "schedule {} splits the backward, which this version simulates but does not train",
          program.schedule()));
    }
  }
}

/// One device of a run: everything its thread needs.
template <class T>
struct CpuDevice {
  CpuDevice(std::stop_token stop) : backend(bell, std::move(stop)) {}
  cpu::Doorbell bell;
  cpu::Backend<T> backend;
  MemoryMeter meter;
  std::vector<std::unique_ptr<StageState<cpu::Backend<T>>>> stages;
  std::unique_ptr<DeviceMachine<cpu::Backend<T>>> machine;
};

template <class T>
class CpuRun {
 public:
  using B = cpu::Backend<T>;

  CpuRun(const Program& program, const TrainingSetup<T>& setup) : program_(program), setup_(setup) {
    check_runnable(program);
    TANDEM_CHECK(setup.layers.size() == program.placement().parts(), setup.layers.size());
    for (const DeviceId device : all_ids<DeviceId>(program.placement().devices)) build(device);
    join_neighbours();
    for (const InstructionId id : program.order()) {
      if (!is_collective(program[id].op.kind)) continue;
      world_.meetings.emplace(id, std::make_unique<Meeting<T>>(participants(program[id])));
    }
    set_up_world();
  }

  TrainingReport<T> run() {
    const std::stop_callback wake_all(stop_.get_token(), [this] { ring_all(); });
    const std::stop_callback user_stop(setup_.stop, [this] { stop_.request_stop(); });
    std::latch ready(static_cast<std::ptrdiff_t>(devices_.size()) + 1);
    {
      std::vector<std::jthread> threads;
      for (const DeviceId device : all_ids<DeviceId>(devices_.size())) {
        threads.emplace_back([this, device, &ready] {
          ready.arrive_and_wait();
          run_device(device);
        });
      }
      world_.start = std::chrono::steady_clock::now();
      ready.arrive_and_wait();
    }
    if (failure_) std::rethrow_exception(failure_);
    collect();
    return std::move(report_);
  }

 private:
  void build(DeviceId device) {
    devices_.push_back(std::make_unique<CpuDevice<T>>(stop_.get_token()));
    CpuDevice<T>& here = *devices_.back();
    world_.stages.resize(program_.placement().stages());
    std::int64_t scratch = 0;
    for (const StageId stage : program_.placement().stages_on(device)) {
      const LayerRange layers = setup_.layers[index(program_.placement().part[stage])];
      here.stages.push_back(std::make_unique<StageState<B>>(
          setup_.stage, stage, layers, setup_.slots[stage], here.backend, here.meter));
      world_.stages[stage] = here.stages.back().get();
      scratch = std::max(scratch, here.stages.back()->stage.sizes().scratch);
    }
    cpu::Buffer<T> memory(scratch);
    here.meter.commit(MemoryClass::buffers, memory.bytes());
    here.meter.acquire(MemoryClass::buffers, memory.bytes());
    here.machine = std::make_unique<DeviceMachine<B>>(program_, device, world_, here.backend,
                                                      std::move(memory));
  }

  void join_neighbours() {
    const Placement& placement = program_.placement();
    for (const Placement::Edge& edge : placement.edges) {
      StageState<B>& above = *world_.stages[edge.from];
      StageState<B>& below = *world_.stages[edge.to];
      above.below = edge.to;
      below.above = edge.from;
      above.below_is_here = below.above_is_here =
          placement.device[edge.from] == placement.device[edge.to];
    }
    for (const Instruction& instruction : program_.instructions()) {
      if (instruction.op.kind == OpKind::recompute)
        world_.stages[instruction.op.stage]->recomputes = true;
    }
  }

  std::size_t participants(const Instruction& instruction) const {
    const Placement& placement = program_.placement();
    std::size_t count = 0;
    for (const PartId part : placement.tied_with(placement.part[instruction.op.stage])) {
      count += placement.replicas_of(part).size();
    }
    return count;
  }

  void set_up_world() {
    world_.ring = [this](DeviceId device) { devices_[index(device)]->bell.ring(); };
    world_.before_work = setup_.before_work;
    world_.keep_ledger = setup_.keep_ledger;
    world_.keep_timeline = setup_.keep_timeline;
    world_.on_loss = [this](std::int64_t microbatch, double loss) {
      // The last stage runs its forwards in ascending order or not, but a batch at a time.
      const std::size_t seen = static_cast<std::size_t>(microbatch) + 1;
      if (report_.losses.size() < seen) report_.losses.resize(seen);
      report_.losses[seen - 1] = loss;
      const std::int64_t m = program_.microbatches();
      if (!setup_.on_batch || microbatch % m != m - 1) return;
      double mean = 0.0;
      for (std::int64_t i = microbatch - m + 1; i <= microbatch; ++i) {
        mean += report_.losses[static_cast<std::size_t>(i)] / static_cast<double>(m);
      }
      setup_.on_batch(microbatch / m, mean, std::chrono::steady_clock::now() - world_.start);
    };
    if (!setup_.on_update) return;
    world_.on_update = [this](StageId stage, std::int64_t version, std::span<const T> weights,
                              std::span<const T> state) {
      const std::lock_guard lock(mutex_);
      setup_.on_update(stage, version, weights, state);
    };
  }

  void run_device(DeviceId device) {
    DeviceMachine<B>& machine = *devices_[index(device)]->machine;
    try {
      tandem::run(program_, program_.on(device), setup_.batches, machine);
      machine.drain();
    } catch (const cpu::Stopped&) {
    } catch (const DeviceError& error) {
      keep_failure(std::make_exception_ptr(
          DeviceError(fmt::format("device {}, {}: {}", index(device),
                                  describe(program_, machine.last_worked()), error.what()))));
    } catch (...) {
      keep_failure(std::current_exception());
    }
  }

  void keep_failure(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::move(failure);
    }
    stop_.request_stop();
  }

  void ring_all() {
    for (const auto& device : devices_) device->bell.ring();
  }

  void collect() {
    report_.interrupted = setup_.stop.stop_requested();
    report_.timeline.clock = Clock::measured;
    for (const auto& device : devices_) {
      const std::vector<Span>& spans = device->machine->spans();
      report_.timeline.spans.insert(report_.timeline.spans.end(), spans.begin(), spans.end());
      const std::vector<LedgerEntry>& ledger = device->machine->ledger();
      report_.ledger.insert(report_.ledger.end(), ledger.begin(), ledger.end());
      report_.high_water.push_back(device->meter.high_water());
      report_.peak_held.push_back(device->meter.peak_held());
    }
    if (report_.interrupted) return;
    const WeightVersions versions(program_);
    for (StageState<B>* state : world_.stages) {
      const std::int64_t newest =
          versions.covering_update(state->id, setup_.batches * program_.microbatches() - 1) + 1;
      const std::span<const T> weights = state->weights.held(newest);
      for (const Tensor& tensor : state->stage.parameters()) {
        const auto values = weights.subspan(static_cast<std::size_t>(tensor.offset),
                                            static_cast<std::size_t>(tensor.size()));
        report_.weights.push_back({tensor.name, {values.begin(), values.end()}});
      }
    }
  }

  const Program& program_;
  const TrainingSetup<T>& setup_;
  std::stop_source stop_;
  World<B> world_;
  std::vector<std::unique_ptr<CpuDevice<T>>> devices_;
  TrainingReport<T> report_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

class CpuTrainer : public Trainer {
 public:
  TrainingReport<float> train(const Program& program, const TrainingSetup<float>& setup) override {
    return train_on_cpu(program, setup);
  }
};

}  // namespace

template <class T>
TrainingReport<T> train_on_cpu(const Program& program, const TrainingSetup<T>& setup) {
  return CpuRun<T>(program, setup).run();
}

template TrainingReport<float> train_on_cpu(const Program&, const TrainingSetup<float>&);
template TrainingReport<double> train_on_cpu(const Program&, const TrainingSetup<double>&);

std::unique_ptr<Trainer> make_trainer(std::string_view backend) {
  if (backend == "cpu") return std::make_unique<CpuTrainer>();
  throw AbsentError(
      fmt::format("backend {}: this version has no code for it; use --backend cpu", backend));
}

}  // namespace tandem
