#pragma once
// RunState: what the devices of a run share. A run of width w is w pipelines, each an instance of
// the whole program: pipeline r of w takes microbatches r·m … (r+1)·m − 1 of each batch of w·m, and
// they meet where gradients are summed.

#include <algorithm>
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
#include "executor/run/transport.h"
#include "executor/stage/norm_collective.h"
#include "executor/stage/stage_state.h"

namespace tandem {

/// One read or making of a weight version, as it happened. `microbatch` counts through the batches
/// of all pipelines.
struct LedgerEntry {
  ReplicaId replica{};
  OpKind kind{};
  std::int64_t microbatch = 0;
  std::int64_t version = 0;
  friend auto operator<=>(const LedgerEntry&, const LedgerEntry&) = default;
};

/// An update that has just been made: the weights of `version`, and the optimizer state.
template <class T>
struct UpdateView {
  std::uint16_t pipeline = 0;
  ReplicaId replica{};
  std::int64_t version = 0;
  std::span<const T> weights, state;
};

template <class T>
using UpdateObserver = std::function<void(const UpdateView<T>&)>;

/// Built before the threads start; then only what is atomic or guarded changes.
template <class B>
struct RunState {
  using W = typename B::Kernels::Wide;
  RunState(const Program& of, std::uint16_t pipelines)
      : program(of), width(pipelines), sequence(of), versions(of), replicas(pipelines) {}

  /// The device's number among those of all pipelines.
  DeviceId device_of(std::uint16_t pipeline, DeviceId device) const {
    return id_at<DeviceId>(std::size_t{pipeline} * program.placement().devices + index(device));
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
  bool meets(const Op& op, ReplicaId replica) const {
    const Placement& placement = program.placement();
    if (sums_replicas(op.kind)) return placement.stage[replica] == placement.stage[op.replica];
    const std::vector<ReplicaId> tied = placement.replicas_tied_with(op.replica);
    return std::find(tied.begin(), tied.end(), replica) != tied.end();
  }

  NormCollective<B>& norm_collective(std::uint16_t pipeline, InstructionId id) const {
    return *norm_collectives.at({pipeline, id});
  }

  const Program& program;
  const std::uint16_t width;
  const MicrobatchSequence sequence;
  const WeightVersions versions;
  std::vector<Table<ReplicaId, StageState<B>*>> replicas;  // of each pipeline
  std::map<std::pair<std::uint16_t, InstructionId>, std::unique_ptr<Collective<B>>> collectives;
  std::map<std::pair<std::uint16_t, InstructionId>, std::unique_ptr<NormCollective<B>>>
      norm_collectives;
  GradientGuard guard;
  DecideNumbers decide_numbers;
  std::vector<std::string> tensors;       // names, in model order
  LinkEmulator* link_emulator = nullptr;  // null: links are as fast as memory
  Transport<B>* transport = nullptr;      // null: devices reach into one another's memory
  std::function<void(DeviceId)> ring;     // wakes a device, numbered through all pipelines
  std::chrono::steady_clock::time_point start;
  /// Called before each piece of work: seeded delays in tests. May be empty.
  std::function<void(DeviceId, Instance)> before_work;
  std::function<void(std::int64_t sample, double loss)> on_loss;
  /// Of every update of every stage, once it stays: the sums of squares of its gradients, whether
  /// it was skipped, and whether a rollback made it.
  std::function<void(const StageState<B>&, std::int64_t update, std::span<const double> squares,
                     bool skipped, bool rolled_back)>
      on_norm;
  UpdateObserver<W> on_update;
  bool keep_ledger = false, keep_timeline = true;
};

}  // namespace tandem
