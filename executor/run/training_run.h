#pragma once
// TrainingRun: what train() does, whatever the devices are: memory laid out and made, a machine and
// a thread for each device, joined before it returns.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
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
#include "executor/run/rank_reports.h"
#include "executor/run/run_collectives.h"
#include "executor/run/run_devices.h"
#include "executor/run/run_shape.h"
#include "executor/run/step_log.h"
#include "executor/run/training_setup.h"
#include "executor/stage/memory_meter.h"

namespace tandem {

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
        initial_(setup.stage.seed),
        start_(setup.start != nullptr ? *setup.start : initial_),
        run_(program, setup, width_of(program)),
        devices_(run_, std::move(make_backend)),
        log_(
            std::int64_t{program.microbatches()} * run_.width,
            program.forwards_alone() ? 0 : program.placement().stages(), run_.tensors.size(),
            [this](StepReport step) { end_step(step); },
            loss_weights(setup.stage.model.sequence, setup.stage.slices), start_.batches()) {
    check_guard(program, setup.stage);
    check_slices(program, setup.stage);
    if (setup.others != nullptr) check_ranks(program, *setup.others, run_.width);
    run_.transport = transport;
    run_.others = setup.others;
    if constexpr (State::kHasMaster) check_master(program);
    set_up_run_state();
    devices_.build(stop_.get_token(), start_);
    if (setup.keeper != nullptr) for_each_shown([](State& state) { state.is_kept = true; });
    RunCollectives<B>::add(run_);
    if (setup.link_rate) run_.link_emulator = &link_emulator_.emplace(*setup.link_rate);
  }

  TrainingReport<W> run() {
    if (run_.others == nullptr) return run_here();
    try {
      run_.others->begin(ears());
      TrainingReport<W> report = run_here();
      if (!report.interrupted) run_.others->end();
      return report;
    } catch (const DeviceError& error) {
      end_failed(error.what());
    } catch (const std::bad_alloc&) {
      end_failed(kOutOfMemory);
    } catch (const std::exception& error) {
      run_.others->fail(error.what());
      abort_messages();
      throw;
    }
  }

 private:
  using State = StageState<B>;
  using Device = typename RunDevices<B>::Device;

  static constexpr const char* kOutOfMemory = "out of memory";

  /// Of a run over several ranks: by what all of them say.
  [[noreturn]] void end_failed(const std::string& why) {
    const std::string said = run_.others->fail(why);
    abort_messages();
    throw DeviceError(said);
  }
  /// Or devices, which are to be destroyed, would wait for what other ranks no longer send.
  void abort_messages() {
    if (run_.transport != nullptr) run_.transport->abort();
    run_.others->abort();
  }

  TrainingReport<W> run_here() {
    const std::stop_callback on_stop(stop_.get_token(), [this] {
      devices_.for_each([](DeviceId, Device& device) { device.wakeup.wake(); });
    });
    const std::stop_callback user_stop(setup_.stop, [this] {
      interrupt();
      if (run_.others != nullptr) run_.others->stop();
    });
    const std::int64_t segment = program_.forwards_alone() ? 1
                                 : setup_.pause_every > 0  ? setup_.pause_every
                                                           : setup_.batches;
    for (std::int64_t first = start_.batches();
         first < setup_.batches && !stop_.stop_requested();) {
      const std::int64_t last = std::min((first / segment + 1) * segment, setup_.batches);
      run_batches(first, last);
      // Or devices that are to be destroyed would wait for messages that nobody sends.
      if (run_.transport != nullptr && stop_.stop_requested()) run_.transport->abort();
      if (run_.others != nullptr && interrupted_) run_.others->abort();
      if (failure_) std::rethrow_exception(failure_);
      const bool shows = setup_.on_pause || run_.others != nullptr;
      const bool pauses = shows && setup_.pause_every > 0 && last % setup_.pause_every == 0;
      if (pauses && !stop_.stop_requested()) show_weights(last);
      first = last;
    }
    if (setup_.keeper != nullptr && !stop_.stop_requested()) keep_state();
    collect();
    return std::move(report_);
  }

  void interrupt() {
    interrupted_ = true;
    stop_.request_stop();
  }

  /// What a run of several ranks has to hear of one another.
  RunEars ears() {
    RunEars ears{
        .progress = {},
        .describe = [this](DeviceId device,
                           const Progress& progress) { return describe(device, progress); },
        .on_loss = [this](std::int64_t sample, double loss,
                          auto at) { log_.add_loss(sample, loss, at); },
        .on_update = [this](std::int64_t batch, std::size_t first_tensor,
                            const UpdateSeen& seen) { log_.add_update(batch, first_tensor, seen); },
        .on_failure =
            [this](const std::string& why) {
              keep_failure(std::make_exception_ptr(DeviceError(why)));
            },
        .on_stop = [this] { interrupt(); }};
    devices_.for_each([&ears](DeviceId id, const Device& device) {
      ears.progress.emplace_back(id, &device.machine->log().progress());
    });
    return ears;
  }
  std::string describe(DeviceId device, const Progress& progress) const {
    return describe_work(program_, device, progress.id(), progress.microbatch());
  }

  void set_up_run_state() {
    run_.wake = [this](DeviceId device) { devices_.wake(device); };
    OtherRanks* const logs =
        run_.others != nullptr && !run_.others->is_first() ? run_.others : nullptr;
    run_.on_loss = [this, logs](std::int64_t sample, double loss, auto at) {
      logs ? logs->tell_loss(sample, loss, at) : log_.add_loss(sample, loss, at);
    };
    run_.on_norm = [this, logs](const State& state, std::int64_t update, const UpdateSeen& seen) {
      if (!is_logged(state, update)) return;
      const std::int64_t batch = update / state.place.updates_a_batch;
      logs ? logs->tell_update(batch, state.place.first_tensor, seen)
           : log_.add_update(batch, state.place.first_tensor, seen);
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
    std::int64_t here = 0;
    devices_.for_each([&here](DeviceId, const Device&) { ++here; });
    step.computed = Duration(run_.computed.load(std::memory_order_relaxed)) / here;
    if (setup_.on_step) setup_.on_step(step);
  }

  /// All devices run the batches, and end them.
  void run_batches(std::int64_t first, std::int64_t last) {
    std::ptrdiff_t here = 0;
    devices_.for_each([&](DeviceId, const Device& device) {
      ++here;
      for (const auto& replica : device.replicas) replica->read_on(setup_.stage);
    });
    std::latch ready(here + 1);
    {
      std::optional<Watchdog> watchdog;
      std::vector<std::jthread> threads;
      try {
        devices_.for_each([&](DeviceId, Device& device) {
          threads.emplace_back([this, &device, &ready, first, last] {
            ready.arrive_and_wait();
            run_device(device, first, last);
          });
        });
        watch(watchdog);
      } catch (...) {
        keep_failure(std::current_exception());
        ready.count_down(here - std::ssize(threads));
      }
      run_.start = std::chrono::steady_clock::now() - trained_;
      ready.arrive_and_wait();
      threads.clear();
      trained_ = std::chrono::steady_clock::now() - run_.start;
      await_others();
    }
  }

  /// The first rank's watchdog watches the others until theirs have ended, too. A stopped run comes
  /// here on all ranks, a failed one may not.
  void await_others() {
    if (run_.others == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
    }
    run_.others->gather({});
  }

  void run_device(Device& device, std::int64_t first, std::int64_t last) {
    DeviceMachine<B>& machine = *device.machine;
    try {
      tandem::run(program_, machine.slice(), last, machine, first);
      machine.drain();
    } catch (const Stopped&) {
    } catch (const DeviceError& error) {
      keep_failure(std::make_exception_ptr(DeviceError(machine.log().describe_failure(error))));
    } catch (const std::bad_alloc&) {
      if (run_.others == nullptr) return keep_failure(std::current_exception());
      keep_failure(std::make_exception_ptr(
          DeviceError(machine.log().describe_failure(DeviceError(kOutOfMemory)))));
    } catch (...) {
      keep_failure(std::current_exception());
    }
  }

  void watch(std::optional<Watchdog>& watchdog) {
    if (setup_.watchdog <= Duration::zero()) return;
    if (run_.others != nullptr && !run_.others->is_first()) return;  // the first one watches all
    std::vector<const Progress*> progress;
    if (run_.others != nullptr) progress = run_.others->progress_elsewhere();
    devices_.for_each([&](DeviceId, const Device& device) {
      progress.push_back(&device.machine->log().progress());
    });
    watchdog.emplace(Watchdog::Setup{
        .devices = std::move(progress),
        .limit = setup_.watchdog,
        .on_stall = [this](const Progress* culprit, Duration waited) { stall(culprit, waited); },
        .grace = std::min<Duration>(10 * setup_.watchdog, std::chrono::seconds(5)),
        .on_stuck = [this] { end_stuck(); }});
  }

  void stall(const Progress* culprit, Duration waited) {
    std::string who = "deadlock: every device is waiting";
    bool is_here = false;
    devices_.for_each([&](DeviceId id, const Device& device) {
      const Progress& progress = device.machine->log().progress();
      if (&progress != culprit) return;
      who = describe(id, progress) + ": does not end";
      is_here = true;
    });
    if (culprit != nullptr && !is_here) who = run_.others->describe(*culprit) + ": does not end";
    if (culprit == nullptr && run_.others != nullptr) {
      if (const std::string overdue = run_.others->overdue(); !overdue.empty())
        who += ", " + overdue;
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
      if (!failure_) failure_ = failure;
    }
    if (run_.others != nullptr) {
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& error) {
        run_.others->fail(error.what());
      }
    }
    stop_.request_stop();
  }

  /// The state of each stage that is shown, where that is here.
  template <class Visit>
  void for_each_shown(const Visit& visit) const {
    for (const StageId stage : all_ids<StageId>(program_.placement().stages())) {
      if (State* const state = run_.replicas[0][shown_replica(program_, setup_.slots, stage)])
        visit(*state);
    }
  }

  /// At the end of the run: all planes of all stages.
  void keep_state() const {
    if (!setup_.keeper->wants(setup_.batches)) return;
    for_each_shown([this](State& state) {
      show_state(state, devices_.backend_of(state), devices_.newest_version(state, setup_.batches),
                 *setup_.keeper);
    });
  }

  using Fetched = decltype(std::declval<B&>().fetch(std::span<const W>()));

  /// Of each stage here, when `batches` have ended: all its replicas have the same.
  std::vector<std::pair<LayerRange, Fetched>> newest_weights(std::int64_t batches) const {
    const Placement& placement = program_.placement();
    std::vector<std::pair<LayerRange, Fetched>> stages;
    for (const StageId stage : all_ids<StageId>(placement.stages())) {
      State* const shown = run_.replicas[0][placement.replicas_of(stage).front()];
      if (shown == nullptr) continue;
      State& state = *shown;
      const auto newest =
          std::span<const W>(state.trained(devices_.newest_version(state, batches)));
      stages.emplace_back(state.place.layers, devices_.backend_of(state).fetch(newest));
    }
    return stages;
  }

  void show_weights(std::int64_t batches) const {
    const auto fetched = newest_weights(batches);
    std::vector<StageWeights<W>> stages;
    for (const auto& [layers, values] : fetched) stages.push_back({layers, values.span()});
    if (run_.others == nullptr) return setup_.on_pause(batches, stages);
    std::vector<OwnedWeights<W>> elsewhere;
    for (const std::string& brought :
         run_.others->gather(run_.others->is_first() ? std::string() : pack_weights<W>(stages))) {
      for (OwnedWeights<W>& stage : unpack_weights<W>(brought))
        elsewhere.push_back(std::move(stage));
    }
    if (!setup_.on_pause) return;
    for (const OwnedWeights<W>& stage : elsewhere) stages.push_back({stage.layers, stage.values});
    std::ranges::sort(stages, {}, [](const auto& stage) { return stage.layers.first; });
    setup_.on_pause(batches, stages);
  }

  void collect() {
    report_.interrupted = interrupted_;
    report_.timelines.resize(run_.width);
    for (Timeline& timeline : report_.timelines) timeline.clock = Clock::measured;
    report_.high_water.resize(devices_.size());
    report_.peak_held.resize(devices_.size());
    report_.workspace.resize(devices_.size());
    devices_.for_each([this](DeviceId id, const Device& device) {
      Timeline& timeline = report_.timelines[index(id) / program_.placement().devices];
      const std::vector<Span>& spans = device.machine->log().spans();
      timeline.spans.insert(timeline.spans.end(), spans.begin(), spans.end());
      const std::vector<LedgerEntry>& ledger = device.machine->ledger();
      report_.ledger.insert(report_.ledger.end(), ledger.begin(), ledger.end());
      report_.high_water[id] = device.meter.high_water();
      report_.peak_held[id] = device.meter.peak_held();
      report_.workspace[id] = device.backend->workspace_bytes();
    });
    if (run_.others != nullptr && !report_.interrupted) gather_reports();
    report_.losses = log_.take_losses();  // the other ranks have told theirs by now
    if (report_.interrupted || program_.forwards_alone()) return;
    for (const auto& [layers, fetched] : newest_weights(setup_.batches)) {
      for (const Tensor& tensor : devices_.tensors_of(layers)) {
        const auto values = fetched.span().subspan(static_cast<std::size_t>(tensor.offset),
                                                   static_cast<std::size_t>(tensor.size()));
        report_.weights.push_back({tensor.name, {values.begin(), values.end()}});
      }
    }
  }

  void gather_reports() {
    const std::vector<std::string> reports =
        run_.others->gather(pack_report(report_, run_.start - run_.others->clock_ahead()));
    for (std::size_t rank = 1; rank < reports.size(); ++rank) {
      merge_report(report_, run_.start, reports[rank], [&](DeviceId device) {
        return run_.others->rank_of(device) == static_cast<std::int32_t>(rank);
      });
    }
  }

  const Program& program_;
  const TrainingSetup<W>& setup_;
  const InitialWeights<W> initial_;
  const TrainingStart<W>& start_;
  std::stop_source stop_;
  RunState<B> run_;
  RunDevices<B> devices_;
  StepLog log_;
  std::optional<LinkEmulator> link_emulator_;  // after the devices that it wakes: it ends first
  TrainingReport<W> report_;
  Duration trained_{};  // pauses apart
  std::string stall_;
  std::atomic<bool> interrupted_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace tandem
