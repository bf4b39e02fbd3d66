// What checkpoints cost a training of two stages: how long their copies hold the devices up, beside
// the steps between them, and how fast they reach the disk, beside a plain file of as many bytes.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "core/lower/lower.h"
#include "core/memory/memory.h"
#include "core/model/plan.h"
#include "executor/checkpoint/checkpoint_writer.h"
#include "executor/train.h"
#include "tools/benchmarks/benchmark.h"

namespace tandem::benchmarks {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEvery = 10;  // steps between checkpoints
constexpr std::int64_t kTrainedSteps = 2 * kEvery;
constexpr double kMostStall = 0.02, kLeastOfPlain = 0.8;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Passes on to a writer, and adds up how long its devices were kept from their work.
class TimedKeeper final : public StateKeeper<float> {
 public:
  explicit TimedKeeper(CheckpointWriter& writer) : writer_(writer) {}
  bool wants(std::int64_t batches) override {
    return timed([&] { return writer_.wants(batches); });
  }
  void keep(const ShownPlane<float>& shown) override {
    timed([&] { return writer_.keep(shown), true; });
  }
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override {
    timed([&] { return writer_.end_stage(batches, tensors, steps), true; });
  }
  double seconds() const { return 1e-9 * static_cast<double>(nanoseconds_.load()); }

 private:
  template <class Call>
  bool timed(const Call& call) {
    const auto start = Clock::now();
    const bool result = call();
    nanoseconds_ += std::chrono::nanoseconds(Clock::now() - start).count();
    return result;
  }
  CheckpointWriter& writer_;
  std::atomic<std::int64_t> nanoseconds_ = 0;
};

Plan plan_of_two() {
  const ModelSpec model{.name = "bench",
                        .blocks = 6,
                        .width = 384,
                        .heads = 6,
                        .sequence = 256,
                        .vocabulary = 8192,
                        .tied = false};
  Plan plan{.model = model, .schedule = "2bw", .request = {.devices = 2, .microbatches = 8}};
  plan.stages = {{0, 7}, {7, 14}};
  return plan;
}

struct Costs {
  double stalled_s = 0.0, step_s = 0.0;  // of a device; of a step
};

/// Trains, writing a checkpoint in the middle of the run, and one at its end, which is not timed.
Costs train(const Plan& plan, const Program& program, CheckpointWriter& writer) {
  const Data data(plan.model, plan.microbatch_size, 1);
  TimedKeeper keeper(writer);
  TrainingSetup<float> setup;
  setup.stage = {.model = plan.model,
                 .microbatch_size = plan.microbatch_size,
                 .optimizer = {},
                 .seed = 1,
                 .data = &data};
  setup.layers = plan.stages;
  setup.slots = count_slots(program);
  setup.batches = kTrainedSteps;
  setup.keep_timeline = false;
  setup.keeper = &keeper;
  Costs costs;
  setup.on_step = [&](const StepReport& step) {
    if (step.batch + 2 < kTrainedSteps) return;
    costs.stalled_s = keeper.seconds() / 2;  // of two devices
    costs.step_s = to_seconds(step.since_start) / static_cast<double>(step.batch + 1);
  };
  train_on_cpu<float>(program, setup);
  return costs;
}

/// Seconds from the last copy of a checkpoint until it has its name.
double write_checkpoint(CheckpointWriter& writer, const std::vector<KeptTensor>& tensors,
                        std::int64_t batches) {
  if (!writer.wants(batches)) return 0.0;
  for (const KeptTensor& kept : tensors) {
    const std::vector<float> values(static_cast<std::size_t>(kept.tensor.size()), 0.5F);
    for (const Plane plane : kept.planes) writer.keep({batches, plane, kept.tensor, values});
  }
  const auto start = Clock::now();
  for (const KeptTensor& kept : tensors) writer.end_stage(batches, {&kept.tensor, 1}, batches);
  writer.finish();
  return seconds_since(start);
}

double write_plainly(const std::string& path, std::uint64_t bytes) {
  const std::string content(bytes, 'x');
  const auto start = Clock::now();
  write_durably(path, {content});
  return seconds_since(start);
}

}  // namespace

std::vector<Section> bench_checkpoint(const Settings& settings) {
  const std::string folder = (fs::current_path() / "bench-checkpoints").string();
  const Plan plan = plan_of_two();
  const Program program =
      lower(make_schedule(find_schedule(plan.schedule), schedule_request(plan)));
  const std::vector<KeptTensor> tensors =
      kept_tensors(program, count_slots(program), plan.model, plan.stages, plan.optimizer);
  const CheckpointInfo info{.written_by = "tandem_bench", .model = plan.model};
  double stall = 1e9, write_s = 1e9, plain_s = 1e9;
  std::uint64_t bytes = 0;
  for (int i = 0; i < settings.repetitions; ++i) {
    fs::remove_all(folder);
    {
      CheckpointWriter writer({.folder = folder, .every = kEvery}, info, kTrainedSteps, tensors);
      bytes = writer.bytes();
      const Costs costs = train(plan, program, writer);
      stall = std::min(stall, costs.stalled_s / (static_cast<double>(kEvery) * costs.step_s));
      writer.finish();
    }
    fs::remove_all(folder);
    {
      CheckpointWriter writer({.folder = folder, .every = 1}, info, kTrainedSteps, tensors);
      write_s = std::min(write_s, write_checkpoint(writer, tensors, 1));
    }
    plain_s = std::min(plain_s, write_plainly(folder + "/plain", bytes));
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  return {{fmt::format("Checkpoints of {:.0f} MB, one each {} steps", gigabytes * 1e3, kEvery),
           {{.what = "steps held up by copies",
             .value = 100.0 * stall,
             .unit = "%",
             .floor = 100.0 * kMostStall,
             .at_most = true},
            {.what = "written to the disk",
             .value = gigabytes / write_s,
             .unit = "GB/s",
             .of = "a plain file, synced",
             .ratio = plain_s / write_s,
             .floor = kLeastOfPlain}}}};
}

}  // namespace tandem::benchmarks
