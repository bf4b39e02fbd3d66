#pragma once
// RunState: what the devices of a run share. A run of width w is w pipelines, each an instance of
// the whole program: pipeline r of w takes microbatches r·m … (r+1)·m − 1 of each batch of w·m, and
// they meet where gradients are summed.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"
#include "core/program/run.h"
#include "core/program/versions.h"
#include "executor/run/collective.h"
#include "executor/run/link_emulator.h"
#include "executor/run/neighbours.h"
#include "executor/run/other_ranks.h"
#include "executor/run/step_log.h"
#include "executor/run/training_setup.h"
#include "executor/run/transport.h"
#include "executor/stage/norm_collective.h"
#include "executor/stage/stage_state.h"

namespace tandem {

/// Built before the threads start; then only what is atomic or guarded changes.
template <class B>
struct RunState {
  using W = typename B::Kernels::Wide;
  RunState(const Program& of, const TrainingSetup<W>& asked, std::uint16_t pipelines)
      : program(of),
        setup(asked),
        width(pipelines),
        decide_numbers(tandem::decide_numbers(asked.stage.guard, asked.stage.optimizer)),
        sequence(of),
        versions(of),
        neighbours(of),
        replicas(pipelines) {}

  /// The device's number among those of all pipelines.
  DeviceId device_of(std::uint16_t pipeline, DeviceId device) const {
    return id_at<DeviceId>(std::size_t{pipeline} * program.placement().devices + index(device));
  }
  bool runs_here(DeviceId device) const {  // numbered through all pipelines
    return others == nullptr || others->runs_here(device);
  }
  /// The microbatch's number among those of all pipelines.
  std::int64_t sample_of(std::uint16_t pipeline, std::int64_t microbatch) const {
    const std::int64_t m = program.microbatches();
    return (microbatch / m * width + pipeline) * m + microbatch % m;
  }
  /// Where `pipeline` brings the gradients of a sum: gradients of replicas meet across all
  /// pipelines, those of tied parameters within each.
  Collective<B>& collective(std::uint16_t pipeline, InstructionId id) const {
    const bool shared = sums_replicas(program[id].op.kind);
    return *collectives.at({shared ? std::uint16_t{0} : pipeline, id});
  }

  /// Whether a stage takes part in a sum of gradients.
  bool takes_part(const Op& op, ReplicaId replica) const {
    const Placement& placement = program.placement();
    if (sums_replicas(op.kind)) return placement.stage[replica] == placement.stage[op.replica];
    const std::vector<ReplicaId> tied = placement.replicas_tied_with(op.replica);
    return std::find(tied.begin(), tied.end(), replica) != tied.end();
  }

  NormCollective<B>& norm_collective(std::uint16_t pipeline, InstructionId id) const {
    return *norm_collectives.at({pipeline, id});
  }

  const Program& program;
  const TrainingSetup<W>& setup;
  const std::uint16_t width;
  const DecideNumbers decide_numbers;
  const MicrobatchSequence sequence;
  const WeightVersions versions;
  const Neighbours neighbours;
  std::vector<Table<ReplicaId, StageState<B>*>> replicas;  // of each pipeline; null: elsewhere
  std::map<std::pair<std::uint16_t, InstructionId>, std::unique_ptr<Collective<B>>> collectives;
  std::map<std::pair<std::uint16_t, InstructionId>, std::unique_ptr<NormCollective<B>>>
      norm_collectives;
  std::vector<std::string> tensors;       // names, in model order
  LinkEmulator* link_emulator = nullptr;  // null: links are as fast as memory
  Transport<B>* transport = nullptr;      // null: devices reach into one another's memory
  OtherRanks* others = nullptr;           // null: all devices are run here
  std::function<void(DeviceId)> wake;     // a device's thread, numbered through all pipelines
  std::chrono::steady_clock::time_point start;
  /// Time that the devices have spent on their compute lanes' work, all together.
  mutable std::atomic<Duration::rep> computed{0};
  std::function<void(std::int64_t sample, double loss, std::chrono::steady_clock::time_point at)>
      on_loss;
  /// Of every update of every stage, once it stays.
  std::function<void(const StageState<B>&, std::int64_t update, const UpdateSeen&)> on_norm;
  UpdateObserver<W> on_update;
};

}  // namespace tandem
