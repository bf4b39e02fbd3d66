// Kernels and training steps of the first GPU, beside what it does at best and beside PyTorch.

#include <memory>
#include <string>
#include <utility>

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
constexpr double kEagerFloor = 1.5, kCompiledFloor = 1.0, kRateFloor = 0.55;

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

/// Steps of one size in one precision; what does not fit is said. Also tokens a second, if any.
std::pair<Section, double> steps_of(Trainer& trainer, const TrainingTask& task, bool bf16,
                                    const GpuPeaks& peaks) {
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
    return {section, 0.0};
  }
  section.rows.push_back({.what = "tandem", .value = tokens / seconds, .unit = "tokens/s"});
  const double rate = flops_of_token(task.model) * tokens / seconds;
  Row share = beside_peak("its rate", rate, bf16 ? peaks.bf16 : peaks.f32);
  if (task.model.width >= 2048 && bf16) share.floor = kRateFloor;
  section.rows.push_back(share);
  return {section, tokens / seconds};
}

/// tandem's `own` tokens a second beside those of PyTorch. Compiling takes longer than all else.
Section beside_peer(const TorchPeer& peer, const TrainingTask& task, bool bf16, bool compiles,
                    double own) {
  const std::string how = compiles ? "torch.compile" : "eager, SDPA";
  Section section{fmt::format("beside PyTorch {}, {}, {}", peer.version(), how,
                              bf16 ? "autocast to bf16" : "f32"),
                  {}};
  try {
    const double tokens = static_cast<double>(task.batch) * task.model.sequence;
    const double rate =
        tokens / best_step(peer.run({.bf16 = bf16, .on_gpu = true, .compiles = compiles}, kSteps));
    section.rows.push_back({.what = "PyTorch", .value = rate, .unit = "tokens/s"});
    section.rows.push_back({.what = "tandem",
                            .value = own,
                            .unit = "tokens/s",
                            .of = "PyTorch",
                            .ratio = own / rate,
                            .floor = compiles ? kCompiledFloor : kEagerFloor});
    if (!bf16) section.rows.back().floor.reset();
  } catch (const Error& error) {
    section.title += fmt::format(": {}", error.what());
  }
  return section;
}

/// What we do ourselves first, then what others do, who may take long or fail.
void steps(const Settings& settings, const TrainingTask& task, const Show& show) {
  if (const std::string reason = why_no_cuda(); !reason.empty())
    return show({"GPU: " + reason, {}});
  const GpuPeaks peaks = measure_gpu_peaks(settings);
  const std::unique_ptr<Trainer> trainer = make_cuda_trainer();
  double own[2] = {};  // float, bf16
  for (const bool bf16 : {true, false}) {
    const auto [section, rate] = steps_of(*trainer, task, bf16, peaks);
    show(section);
    own[bf16] = rate;
  }
  const TorchPeer peer(task, Data(task.model, 1, task.seed), settings.pythons.front());
  if (peer.version().empty()) return;
  for (const auto& [bf16, compiles] :
       {std::pair{true, false}, std::pair{true, true}, std::pair{false, false}}) {
    if (own[bf16] > 0.0) show(beside_peer(peer, task, bf16, compiles, own[bf16]));
  }
}

}  // namespace

void bench_gpu(const Settings& settings, const Show& show) {
  if (const std::string reason = why_no_cuda(); !reason.empty())
    return show({"GPU: " + reason, {}});
  bench_gpu_kernels(settings, cuda::describe_gpus(1), show);
  const std::unique_ptr<Trainer> trainer = make_cuda_trainer();
  show({"the executor",
        {{.what = "an op that computes next to nothing, host and GPU",
          .value = to_seconds(measure_overhead(*trainer)) * 1e6,
          .unit = "us"},
         {.what = "between two ops, with the host ahead",
          .value = to_seconds(measure_gap(*trainer)) * 1e6,
          .unit = "us",
          .floor = 5.0,
          .at_most = true}}});
}

void bench_gpu_gpt2(const Settings& settings, const Show& show) {
  steps(settings, small_gpt(), show);
}

void bench_gpu_stage(const Settings& settings, const Show& show) {
  steps(settings, stage_of_larger_gpt(), show);
}

}  // namespace tandem::benchmarks
