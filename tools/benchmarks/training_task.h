#pragma once
// How tandem trains a task, and PyTorch as a peer: the same model, data and first weights, in
// processes of its own.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/memory/storage.h"
#include "core/model/model.h"
#include "executor/cpu/products.h"
#include "executor/data/data.h"
#include "executor/stage/optimizer.h"
#include "executor/train.h"

namespace tandem::benchmarks {

/// What both train. A step is one batch; its data are microbatches `step·m …` of `data`, m of them,
/// as a batch of m · their size.
struct TrainingTask {
  ModelSpec model;
  OptimizerConfig optimizer;
  std::int32_t batch = 8;   // samples
  std::int32_t steps = 20;  // whose data the peer is given; then it starts over
  std::uint64_t seed = 1;
};

/// One run, by steps.
struct TrainingRun {
  std::vector<double> losses, seconds;
};

/// How to run PyTorch: what a user who tunes it would try.
struct PeerSetting {
  std::string environment = {};  // such as "OMP_WAIT_POLICY=passive"
  int threads = 1;
  bool bf16 = false;
  bool on_gpu = false, compiles = false;  // compiles: torch.compile
};

class TorchPeer {
 public:
  /// Writes the task into a folder that goes with the object. `data`: microbatches of one sample.
  TorchPeer(const TrainingTask& task, const Data& data, std::string python);
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  /// "1.13.1"; empty when this python has no torch.
  const std::string& version() const { return version_; }
  /// Throws AbsentError when the peer fails.
  TrainingRun run(const PeerSetting& setting, int steps) const;

 private:
  void write_task(const TrainingTask& task, const Data& data) const;

  std::filesystem::path folder_;
  std::string python_, version_;
};

/// The usual count of a model's work: 6 a parameter and token, and attention as if it were full.
double flops_of_token(const ModelSpec& model);

struct Way {
  std::uint16_t width = 1;        // devices, each with the whole model and its part of the batch
  std::int32_t microbatches = 1;  // of each
  cpu::Precision precision = cpu::Precision::f32;
  Storage storage = Storage::f32;  // bf16: on GPUs
};

TrainingRun train(Trainer& trainer, const TrainingTask& task, const Way& way, int steps);

/// Seconds of the quickest step but the first.
double best_step(const TrainingRun& run);

}  // namespace tandem::benchmarks
