// Kernels and training steps of the first GPU, beside what it does at best and beside PyTorch.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/cuda/cuda.h"
#include "executor/cuda/gpus.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/benchmarks/gpu_kernels.h"
#include "tools/benchmarks/training_task.h"

namespace tandem::benchmarks {
namespace {

constexpr int kSteps = 5;
constexpr double kPeerFloor = 1.0, kRateFloor = 0.45;

TrainingTask small_gpt() {
  return {.model = {.name = "GPT-2 124 M",
                    .blocks = 12,
                    .width = 768,
                    .heads = 12,
                    .sequence = 1024,
                    .vocabulary = 50304},
          .optimizer = {.learning_rate = 5e-4},
          .batch = 8,
          .steps = 2};
}

/// As many blocks as a quarter of 1.3 G parameters.
TrainingTask stage_of_larger_gpt() {
  return {.model = {.name = "a stage of GPT 1.3 B",
                    .blocks = 6,
                    .width = 2048,
                    .heads = 16,
                    .sequence = 1024,
                    .vocabulary = 256},
          .optimizer = {.learning_rate = 2e-4},
          .batch = 8,
          .steps = 2};
}

void add_peer(const TorchPeer& peer, const PeerSetting& setting, double tokens, Row& own,
              Section& section) {
  const std::string what = fmt::format("PyTorch {}{}", peer.version(),
                                       setting.compiles ? ", torch.compile" : ", eager, SDPA");
  try {
    const double rate = tokens / best_step(peer.run(setting, kSteps));
    section.rows.push_back({.what = what, .value = rate, .unit = "tokens/s"});
    if (setting.compiles) return;
    own.of = "PyTorch, eager";
    own.ratio = own.value / rate;
    own.floor = kPeerFloor;
  } catch (const Error& error) {
    section.rows.push_back({.what = what + fmt::format(": {}", error.what()), .unit = "failed"});
  }
}

/// One size in one precision; what does not fit is said.
Section steps_of(Trainer& trainer, const TrainingTask& task, bool bf16, const GpuPeaks& peaks,
                 const TorchPeer& peer) {
  Section section{fmt::format("steps: {}, {} x {} tokens, {}", task.model.name, task.batch,
                              task.model.sequence, bf16 ? "stored in bf16" : "all f32"),
                  {}};
  const double tokens = static_cast<double>(task.batch) * task.model.sequence;
  double seconds = 0.0;
  try {
    seconds =
        best_step(train(trainer, task, {.storage = bf16 ? Storage::bf16 : Storage::f32}, kSteps));
  } catch (const Error& error) {
    section.title += fmt::format(": not trained: {}", error.what());
    return section;
  }
  Row own{.what = "tandem", .value = tokens / seconds, .unit = "tokens/s"};
  if (!peer.version().empty()) {
    add_peer(peer, {.bf16 = bf16, .on_gpu = true}, tokens, own, section);
    // Compiling takes longer than all else.
    if (bf16)
      add_peer(peer, {.bf16 = true, .on_gpu = true, .compiles = true}, tokens, own, section);
  }
  section.rows.push_back(own);
  const double rate = flops_of_token(task.model) * tokens / seconds;
  const double peak = bf16 ? peaks.bf16 : peaks.f32;
  Row share = beside_peak("its rate", rate, peak);
  if (task.model.width >= 2048 && bf16) share.floor = kRateFloor;
  section.rows.push_back(share);
  return section;
}

std::vector<Section> steps(const Settings& settings, const TrainingTask& task) {
  if (const std::string reason = why_no_cuda(); !reason.empty()) return {{"GPU: " + reason, {}}};
  const GpuPeaks peaks = measure_gpu_peaks(settings);
  const std::unique_ptr<Trainer> trainer = make_cuda_trainer();
  const TorchPeer peer(task, Data(task.model, 1, task.seed), settings.python);
  std::vector<Section> sections;
  for (const bool bf16 : {true, false})
    sections.push_back(steps_of(*trainer, task, bf16, peaks, peer));
  return sections;
}

}  // namespace

std::vector<Section> bench_gpu(const Settings& settings) {
  if (const std::string reason = why_no_cuda(); !reason.empty()) return {{"GPU: " + reason, {}}};
  std::vector<Section> sections = bench_gpu_kernels(settings, measure_gpu_peaks(settings));
  sections.front().title += ": " + cuda::describe_gpus(1);
  sections.back().rows.push_back({.what = "an op that computes next to nothing",
                                  .value = to_seconds(measure_overhead(*make_cuda_trainer())) * 1e6,
                                  .unit = "us",
                                  .floor = 5.0,
                                  .at_most = true});
  return sections;
}

std::vector<Section> bench_gpu_gpt2(const Settings& settings) {
  return steps(settings, small_gpt());
}

std::vector<Section> bench_gpu_stage(const Settings& settings) {
  return steps(settings, stage_of_larger_gpt());
}

}  // namespace tandem::benchmarks
