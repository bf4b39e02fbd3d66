#pragma once
// train(): a program and a model → trained weights. One thread a device, joined before it returns.
// A program of width w is run by w pipelines: device d of pipeline r is device r·devices + d.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/product_algorithms.h"
#include "core/memory/memory.h"
#include "core/program/timeline.h"
#include "executor/run/run_state.h"
#include "executor/run/step_log.h"

namespace tandem {

/// The newest weights of one part of the model.
template <class T>
struct PartWeights {
  LayerRange layers;
  std::span<const T> values;  // as Stage lays them out
};

template <class T>
struct TrainingSetup {
  StageSetup stage;
  std::vector<LayerRange> layers;  // of each part
  SlotCounts slots;
  std::int64_t batches = 1;
  bool keep_timeline = true, keep_ledger = false;
  std::function<void(DeviceId, Instance)>
      before_work;                                 // seeded delays; called on the device's thread
  std::function<void(const StepReport&)> on_step;  // on a device's thread, one call at a time
  UpdateObserver<T> on_update;                     // likewise
  /// After every `pause_every` batches the pipeline drains, on_pause sees the weights, and training
  /// goes on as if nothing had happened: the same bits, and its clock stands still meanwhile. 0:
  /// never.
  std::int64_t pause_every = 0;
  std::function<void(std::int64_t batches, std::span<const PartWeights<T>>)> on_pause;
  /// On GPUs: algorithms of products, as a profile keeps them.
  std::vector<ProductAlgorithm> product_algorithms;
  /// One-way rate of every link between two devices, bytes/s. Empty: as fast as memory.
  std::optional<double> link_rate;
  /// Between GPUs: by NCCL, instead of copies into one another's memory. For the CPU it says
  /// nothing.
  bool nccl = false;
  std::stop_token stop;  // of the user
  /// The run ends with an error that names the culprit when no device ends any work for this long,
  /// or for 20 times the longest work so far if that is longer. 0: never.
  Duration watchdog = std::chrono::seconds(30);
  /// Called when the culprit does not even heed that, with the error; must not return. Empty:
  /// prints the error and ends the process with exit code 1.
  std::function<void(const std::string&)> on_stuck;
};

template <class T>
struct NamedTensor {
  std::string name;
  std::vector<T> values;
};

template <class T>
struct TrainingReport {
  std::vector<double> losses;       // of each microbatch; the mean over its tokens
  std::vector<Timeline> timelines;  // of each pipeline, measured; in no order across devices
  Table<DeviceId, MemoryByClass> high_water, peak_held;  // through all pipelines
  Table<DeviceId, Bytes> workspace;                      // beside them: what kernels work with
  std::vector<LedgerEntry> ledger;
  std::vector<NamedTensor<T>> weights;  // the newest version of every tensor, in model order
  bool interrupted = false;
};

/// Trains on this machine's CPU. Throws DeviceError, naming device and instruction, when a slot, a
/// version or an input is not as the program promised; InputError when the program has what this
/// executor can't run (split backward), or decides on updates as it can't (executor/README.md,
/// "How it runs"). REQUIRES: `program` is one that verify() accepts
/// with `setup.slots`, or the errors above are to be seen.
template <class T>
TrainingReport<T> train_on_cpu(const Program& program, const TrainingSetup<T>& setup);

extern template TrainingReport<float> train_on_cpu(const Program&, const TrainingSetup<float>&);
extern template TrainingReport<double> train_on_cpu(const Program&, const TrainingSetup<double>&);

/// The one virtual call of a training run: the backend, picked by name.
class Trainer {
 public:
  virtual ~Trainer() = default;
  virtual TrainingReport<float> train(const Program& program,
                                      const TrainingSetup<float>& setup) = 0;
  /// What the kernels of each device of a pipeline work with, beside its slots.
  virtual Table<DeviceId, Bytes> planned_workspace(const Program& program,
                                                   const StageSetup& stage) const = 0;
};

/// "cpu" or "cuda". Throws AbsentError for "cuda" where there is no GPU, or no code for one.
std::unique_ptr<Trainer> make_trainer(std::string_view backend);

// In executor/cuda/, or in cuda_absent.cpp where the build found no CUDA.
/// Why nothing can be trained on GPUs; empty: it can.
std::string why_no_cuda();
/// A library that is looked for while the program runs.
struct FoundLibrary {
  std::string version = {};
  std::string why_absent = {};  // empty: it is there
};
FoundLibrary find_nccl();
/// Throws AbsentError where nothing can be trained on GPUs.
std::unique_ptr<Trainer> make_cuda_trainer();

}  // namespace tandem
