// Training on the CPU by the product's own path, train_on_cpu(), beside PyTorch and the peak of the
// cores' fused multiply-adds.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "executor/cpu/products.h"
#include "executor/train.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/benchmarks/fma_peak.h"
#include "tools/benchmarks/training_task.h"

namespace tandem::benchmarks {

namespace {

constexpr int kComparedSteps = 20;  // whose losses must be the peer's
constexpr int kTimedSteps = 6;      // of a run; the first is not counted
constexpr double kLossTolerance = 1e-4;

TrainingTask task_of(ModelSpec model) {
  return {.model = std::move(model),
          .optimizer = {.learning_rate = 5e-4},
          .batch = 8,
          .steps = kComparedSteps,
          .seed = 1};
}

ModelSpec gpt() {
  return {.name = "GPT", .blocks = 6, .width = 384, .heads = 6, .sequence = 256, .vocabulary = 256};
}

/// As wide and deep, with about as many parameters.
ModelSpec llama() {
  ModelSpec model = gpt();
  model.name = "Llama";
  model.architecture = Architecture::transformer;
  model.tied = false;
  model.shape = {.key_value_heads = 2,
                 .head_width = 64,
                 .mlp_width = 1024,
                 .rms_norm = true,
                 .query_bias = false,
                 .attention_bias = false,
                 .mlp_bias = false,
                 .gated = true,
                 .dropout = false};
  model.shape.details.activation = Activation::silu;
  model.shape.details.rotary.theta = 10'000.0;
  return model;
}

/// Largest difference of two runs' losses.
double loss_difference(const TrainingRun& a, const TrainingRun& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    worst = std::max(worst, std::abs(a.losses[i] - b.losses.at(i)));
  return worst;
}

/// PyTorch's own choices and those that help it on processors that its BLAS does not know.
std::vector<PeerSetting> peer_settings(int threads, bool bf16) {
  std::vector<PeerSetting> settings;
  for (const char* core : {"", "OPENBLAS_CORETYPE=SkylakeX ", "OPENBLAS_CORETYPE=Haswell "}) {
    settings.push_back({.environment = fmt::format("{}OMP_WAIT_POLICY=passive", core),
                        .threads = threads,
                        .bf16 = bf16});
    if (bf16) break;  // oneDNN computes there, not BLAS
  }
  return settings;
}

/// One comparison: tandem and each setting of the peer by turns.
struct Duel {
  Way way;
  double floor = 1.0;
};

struct DuelResult {
  double seconds = std::numeric_limits<double>::infinity();       // of tandem's best step
  double peer_seconds = std::numeric_limits<double>::infinity();  // of the peer's
  std::string peer_setting;
  FmaPeak peak;  // of one thread
};

DuelResult fight(const TrainingTask& task, const Duel& duel, const TorchPeer& peer, int rounds) {
  DuelResult result;
  for (int round = 0; round < rounds; ++round) {
    const FmaPeak peak = measure_fma_peak();
    result.peak.f32 = std::max(result.peak.f32, peak.f32);
    result.peak.bf16 = std::max(result.peak.bf16, peak.bf16);
    result.seconds = std::min(result.seconds,
                              best_step(train(*make_cpu_trainer(), task, duel.way, kTimedSteps)));
    if (peer.version().empty()) continue;
    const bool bf16 = duel.way.precision == cpu::Precision::bf16;
    for (const PeerSetting& setting : peer_settings(duel.way.width, bf16)) {
      const double seconds = best_step(peer.run(setting, kTimedSteps));
      if (seconds >= result.peer_seconds) continue;
      result.peer_seconds = seconds;
      result.peer_setting = setting.environment;
    }
  }
  return result;
}

Section rows_of(const TrainingTask& task, const Duel& duel, const TorchPeer& peer,
                const DuelResult& result) {
  const double tokens = static_cast<double>(task.batch) * task.model.sequence;
  const bool bf16 = duel.way.precision == cpu::Precision::bf16;
  const std::string torch = fmt::format("PyTorch {}", peer.version());
  Section section{
      fmt::format("{}, {} products, {} thread(s): {} device(s), each {} microbatch(es) of {} "
                  "samples",
                  task.model.name, name(duel.way.precision), duel.way.width, duel.way.width,
                  duel.way.microbatches, task.batch / duel.way.width / duel.way.microbatches),
      {}};
  Row own{.what = cpu::describe(cpu::products().engine),
          .value = tokens / result.seconds,
          .unit = "tokens/s"};
  if (!peer.version().empty()) {
    section.rows.push_back({.what = fmt::format("{} ({})", torch, result.peer_setting),
                            .value = tokens / result.peer_seconds,
                            .unit = "tokens/s"});
    own.of = torch;
    own.ratio = result.peer_seconds / result.seconds;
    own.floor = duel.floor;
  }
  section.rows.push_back(own);
  const double rate = flops_of_token(task.model) * tokens / result.seconds / 1e9;
  const double peak = (bf16 ? result.peak.bf16 : result.peak.f32) * duel.way.width;
  Row share{.what = "its rate", .value = rate, .unit = "GFLOP/s"};
  if (peak > 0.0) {
    share.of = fmt::format("peak of {:.0f} GFLOP/s", peak);
    share.ratio = rate / peak;
    if (!bf16 && duel.way.width == 1) share.floor = 0.75;
  }
  section.rows.push_back(share);
  return section;
}

/// The first losses of both, for the comparison to be one.
Section same_losses(const TrainingTask& task, const Way& way, const TorchPeer& peer) {
  const TrainingRun own = train(*make_cpu_trainer(), task, way, kComparedSteps);
  const TrainingRun other = peer.run(peer_settings(1, false).front(), kComparedSteps);
  return {task.model.name + ", the same training",
          {{.what = fmt::format("first loss, and loss {}", kComparedSteps),
            .value = own.losses.front(),
            .unit = fmt::format("then {:.4f}", own.losses.back())},
           {.what = "largest difference from the peer's losses",
            .value = loss_difference(own, other),
            .unit = "",
            .floor = kLossTolerance,
            .at_most = true}}};
}

/// Float on one and two threads, then bfloat16 where the processor has it. Floors are those of a
/// version: PyTorch 1 is the slower one.
std::vector<Duel> duels_with(const std::string& version) {
  const bool old = version.starts_with("1.");
  std::vector<Duel> duels{{.way = {.width = 1, .microbatches = 2}, .floor = old ? 1.25 : 1.15},
                          {.way = {.width = 2, .microbatches = 1}, .floor = old ? 1.7 : 1.2}};
  if (!cpu::why_no_bf16().empty()) return duels;
  for (Duel duel : {duels[0], duels[1]}) {
    duel.way.microbatches = 1;  // fewer roundings of the weights
    duel.way.precision = cpu::Precision::bf16;
    duel.floor = old ? 1.5 : duel.way.width == 1 ? 1.3 : 1.4;
    duels.push_back(duel);
  }
  return duels;
}

}  // namespace

std::vector<Section> bench_training(const Settings& settings) {
  std::vector<Section> sections;
  for (const ModelSpec& model : {gpt(), llama()}) {
    for (const std::string& python : settings.pythons) {
      const TrainingTask task = task_of(model);
      const TorchPeer peer(task, Data(task.model, 1, task.seed), python);
      const std::vector<Duel> duels = duels_with(peer.version());
      if (!peer.version().empty()) sections.push_back(same_losses(task, duels[0].way, peer));
      for (const Duel& duel : duels) {
        sections.push_back(
            rows_of(task, duel, peer, fight(task, duel, peer, settings.repetitions)));
      }
    }
  }
  cpu::set_products({});
  return sections;
}

}  // namespace tandem::benchmarks
