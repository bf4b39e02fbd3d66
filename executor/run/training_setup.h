#pragma once
// What a training run is asked for, what it reports, and who runs it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/files/profile_file.h"
#include "core/memory/memory.h"
#include "core/program/run.h"
#include "core/program/timeline.h"
#include "executor/backend/notice.h"
#include "executor/run/other_ranks.h"
#include "executor/run/step_log.h"
#include "executor/stage/plane.h"
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

/// The newest weights of one stage of the model.
template <class T>
struct StageWeights {
  LayerRange layers;
  std::span<const T> values;  // as Stage lays them out
};

template <class T>
struct TrainingSetup {
  StageSetup stage;
  std::vector<LayerRange> layers;  // of each stage
  SlotCounts slots;
  std::int64_t batches = 1;                 // at the end, those before the run among them
  const TrainingStart<T>* start = nullptr;  // null: initial weights, made by the seed
  /// What lasts of the stages' state, where it is wanted: while the run goes on, and at its end.
  StateKeeper<T>* keeper = nullptr;
  bool keep_timeline = true, keep_ledger = false;
  /// Those that run the other devices; null: all are run here.
  OtherRanks* others = nullptr;
  /// Called before each piece of work, on the device's thread: seeded delays in tests.
  std::function<void(DeviceId, Instance)> before_work;
  std::function<void(const StepReport&)> on_step;  // on a device's thread, one call at a time
  UpdateObserver<T> on_update;                     // likewise
  /// After each multiple of `pause_every` batches the pipeline drains, on_pause sees the weights,
  /// and training goes on as if nothing had happened: the same bits, and its clock stands still
  /// meanwhile. 0: never.
  std::int64_t pause_every = 0;
  std::function<void(std::int64_t batches, std::span<const StageWeights<T>>)> on_pause;
  /// Of each microbatch where data has no targets: a row of the vocabulary for each token, and more
  /// behind them. On a device's thread. Only where weights are stored as they are trained.
  std::function<void(std::int64_t microbatch, std::span<const T> logits)> on_logits = {};
  /// On GPUs: algorithms of products, as a profile keeps them.
  std::vector<ProductAlgorithm> product_algorithms;
  /// One-way rate of every link between two devices, bytes/s. Empty: as fast as memory.
  std::optional<double> link_rate;
  /// What devices send one another, and sums, go by the backend's transport of messages, instead of
  /// copies into one another's memory. For the CPU it says nothing.
  bool by_messages = false;
  std::stop_token stop;  // of the user
  /// The run ends with an error that names the culprit when no device ends any work for this long,
  /// or for 20 times the longest work so far if that is longer. 0: never.
  Duration watchdog = std::chrono::seconds(30);
  /// Takes the error when the culprit does not even heed that, before the process ends with exit
  /// code 1. Empty: it ends by an exception that nobody catches.
  Notice on_stuck = {};
  Notice on_notice = {};
};

template <class T>
struct NamedTensor {
  std::string name;
  std::vector<T> values;
};

template <class T>
struct TrainingReport {
  std::vector<double> losses;  // of each microbatch or slice of the run; the mean over its tokens
  std::vector<Timeline> timelines;  // of each pipeline, measured; in no order across devices
  Table<DeviceId, MemoryByClass> high_water, peak_held;  // through all pipelines
  Table<DeviceId, Bytes> workspace;                      // beside them: what kernels work with
  std::vector<LedgerEntry> ledger;
  std::vector<NamedTensor<T>> weights;  // the newest version of every tensor, in model order
  bool interrupted = false;
};

/// The one virtual call of a training run: the backend.
class Trainer {
 public:
  virtual ~Trainer() = default;
  virtual TrainingReport<float> train(const Program& program,
                                      const TrainingSetup<float>& setup) = 0;
  /// What the kernels of each device of a pipeline work with, beside its slots.
  virtual Table<DeviceId, Bytes> planned_workspace(const Program& program,
                                                   const StageSetup& stage) const = 0;
};

}  // namespace tandem
