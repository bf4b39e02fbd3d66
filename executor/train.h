#pragma once
// train(): a program and a model → trained weights. One thread a device, joined before it returns.

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "core/timeline.h"
#include "executor/device_machine.h"

namespace tandem {

template <class T>
struct TrainingSetup {
  StageSetup stage;
  std::vector<LayerRange> layers;  // of each part
  SlotCounts slots;
  std::int64_t batches = 1;
  bool keep_timeline = true, keep_ledger = false;
  std::function<void(DeviceId, Instance)>
      before_work;  // seeded delays; called on the device's thread
  std::function<void(std::int64_t batch, double mean_loss, Duration since_start)>
      on_batch;                 // on a device's thread
  UpdateObserver<T> on_update;  // on a device's thread, one call at a time
  std::stop_token stop;         // of the user
};

template <class T>
struct NamedTensor {
  std::string name;
  std::vector<T> values;
};

template <class T>
struct TrainingReport {
  std::vector<double> losses;  // of each microbatch; the mean over its tokens
  Timeline timeline;           // measured; in no order across devices
  Table<DeviceId, MemoryByClass> high_water, peak_held;
  std::vector<LedgerEntry> ledger;
  std::vector<NamedTensor<T>> weights;  // the newest version of every tensor, by stage
  bool interrupted = false;
};

/// Trains on this machine's CPU. Throws DeviceError, naming device and instruction, when a slot, a
/// version or an input is not as the program promised; InputError when the program has what this
/// executor can't run (replicas, split backward). REQUIRES: `program` is one that verify() accepts
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
};

/// "cpu". Throws AbsentError for "cuda", which this version has no code for.
std::unique_ptr<Trainer> make_trainer(std::string_view backend);

}  // namespace tandem
