#include "tools/benchmarks/training_task.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/stage.h"
#include "tools/cli/notices.h"

namespace tandem::benchmarks {

namespace {

/// Stdout of a shell's command; nothing when it fails.
std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  char part[4096];
  for (std::size_t size = 0; (size = fread(part, 1, sizeof part, pipe)) > 0;)
    text.append(part, size);
  return pclose(pipe) == 0 ? text : std::string();
}

template <class T>
void append(std::ofstream& file, std::span<const T> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

std::filesystem::path make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "tandem_bench_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw InputError("cannot make a folder: " + name);
  return name;
}

/// Beside the program, where it was carried away; else in the sources.
std::filesystem::path script() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.parent_path() / "torch_train.py";
  return std::filesystem::exists(beside, error) ? beside : TANDEM_TORCH_SCRIPT;
}

}  // namespace

TorchPeer::TorchPeer(const TrainingTask& task, const Data& data, std::string python)
    : folder_(make_folder()), python_(std::move(python)) {
  version_ = output_of(fmt::format(
      "'{}' -c 'import torch; print(torch.__version__, end=\"\")' 2>/dev/null", python_));
  if (!version_.empty()) write_task(task, data);
}

TorchPeer::~TorchPeer() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void TorchPeer::write_task(const TrainingTask& task, const Data& data) const {
  using Json = nlohmann::ordered_json;
  const auto layers = static_cast<std::int32_t>(layers_of(task.model).size());
  const Stage<cpu::Kernels<float>> stage(task.model, {0, layers}, 1, 1.0);
  std::vector<float> weights(static_cast<std::size_t>(stage.sizes().parameters));
  stage.initialise(weights, task.seed);
  Json tensors = Json::array();
  for (const Tensor& tensor : stage.parameters())
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  Json described{{"blocks", task.model.blocks},
                 {"heads", task.model.heads},
                 {"sequence", task.model.sequence},
                 {"batch", task.batch},
                 {"steps", task.steps},
                 {"learning_rate", task.optimizer.learning_rate},
                 {"beta1", task.optimizer.beta1},
                 {"beta2", task.optimizer.beta2},
                 {"epsilon", task.optimizer.epsilon},
                 {"tensors", std::move(tensors)}};
  if (task.model.architecture == Architecture::transformer) {
    const TransformerShape& shape = task.model.shape;
    described["key_value_heads"] = shape.key_value_heads;
    described["head_width"] = shape.head_width;
    described["norm_epsilon"] = shape.details.norm_epsilon;
    described["rotary_theta"] = shape.details.rotary.theta;
  }
  std::ofstream(folder_ / "task.json") << described;
  std::ofstream file(folder_ / "weights.f32", std::ios::binary);
  append<float>(file, weights);
  std::ofstream tokens(folder_ / "tokens.i32", std::ios::binary);
  Sample<float> sample;
  for (std::int64_t step = 0; step < task.steps; ++step) {
    for (const bool targets : {false, true}) {
      for (std::int64_t k = step * task.batch; k < (step + 1) * task.batch; ++k) {
        data.fill(k, sample);
        append<std::int32_t>(tokens, targets ? sample.targets : sample.tokens);
      }
    }
  }
}

TrainingRun TorchPeer::run(const PeerSetting& setting, int steps) const {
  const std::string command = fmt::format(
      "{0} OMP_NUM_THREADS={1} OPENBLAS_NUM_THREADS={1} '{2}' '{3}' '{4}' --steps {5} "
      "--threads {1}{6}{7}{8}",
      setting.environment, setting.threads, python_, script().string(), folder_.string(), steps,
      setting.bf16 ? " --bf16" : "", setting.on_gpu ? " --gpu" : "",
      setting.compiles ? " --compile" : "");
  const nlohmann::json result = nlohmann::json::parse(output_of(command), nullptr, false);
  if (result.is_discarded()) throw AbsentError("the peer failed: " + command);
  return {.losses = result["losses"], .seconds = result["seconds"]};
}

double flops_of_token(const ModelSpec& model) {
  return 6.0 * static_cast<double>(parameter_count(model)) +
         12.0 * model.blocks * model.sequence * model.width;
}

TrainingRun train(Trainer& trainer, const TrainingTask& task, const Way& way, int steps) {
  cpu::set_products({.precision = way.precision});
  const Program program = lower(make_schedule(
      find_schedule("1f1b"),
      {.devices = 1, .microbatches = way.microbatches, .replicas = {}, .width = way.width}));
  const std::int32_t size = task.batch / (way.width * way.microbatches);
  const Data data(task.model, size, task.seed);
  TrainingRun run;
  Duration last{};
  TrainingSetup<float> setup;
  setup.stage = {.model = task.model,
                 .microbatch_size = size,
                 .optimizer = task.optimizer,
                 .seed = task.seed,
                 .data = &data};
  setup.stage.storage = way.storage;
  setup.layers = {{0, static_cast<std::int32_t>(layers_of(task.model).size())}};
  setup.slots = count_slots(program);
  setup.batches = steps;
  setup.keep_timeline = false;
  setup.on_step = [&](const StepReport& step) {
    run.losses.push_back(step.loss);
    run.seconds.push_back(to_seconds(step.since_start - last));
    last = step.since_start;
  };
  setup.on_stuck = tools::print_last_error;
  setup.on_notice = tools::print_note;
  trainer.train(program, setup);
  return run;
}

double best_step(const TrainingRun& run) {
  return *std::min_element(run.seconds.begin() + 1, run.seconds.end());
}

}  // namespace tandem::benchmarks
