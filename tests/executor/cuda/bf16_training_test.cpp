// Training with activations and the weights that products read in bfloat16, without a GPU: devices
// of the CPU whose kernels are a GPU's.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/memory/storage.h"
#include "executor/cpu/backend.h"
#include "executor/cuda/kernels/kernel_set.h"
#include "executor/profile/profile_passes.h"
#include "executor/run/training_run.h"
#include "executor/stage/stage.h"
#include "tests/executor/cuda/cpu_context.h"
#include "tests/executor/cuda/machines.h"
#include "tests/support/training.h"

namespace tandem::cuda::testing {
namespace {

using tandem::testing::TrainingCase;

enum class Fault : std::uint8_t {
  none,
  leaves_out_rounding,
  copies_into_planes,  // forwards and backwards read the newest weights
  rounds_what_is_trained,
};

/// Of the steps of all devices.
struct Steps {
  std::int64_t count = 0, with_planes = 0, wrong = 0;
};

/// A step is held against the same one in float.
class WatchedKernels : public KernelSet<CpuContext, Bf16> {
 public:
  WatchedKernels(CpuContext& context, Steps& steps, Fault fault)
      : KernelSet(context), context_(&context), steps_(&steps), fault_(fault) {}

  void step(OptimizerKind kind, const StepSpans<Bf16, float>& given,
            const StepNumbers& numbers) const {
    StepSpans<Bf16, float> spans = given;
    if (fault_ == Fault::leaves_out_rounding) spans.rounded = {};
    const auto copy = [](auto span) { return std::vector<float>(span.begin(), span.end()); };
    const auto weights = copy(spans.weights), gradient = copy(spans.gradient);
    std::vector<float> change;
    for (const Bf16 value : spans.change) change.push_back(to_float(value));
    auto first = copy(spans.first), second = copy(spans.second), last = copy(spans.last_step);
    auto drift = copy(spans.drift);
    std::vector<float> made(weights.size()), forward(given.forward_weights.size()),
        backward(given.backward_weights.size());
    KernelSet::step(kind, spans, numbers);
    KernelSet<CpuContext>(*context_).step(kind,
                                          {.weights = weights,
                                           .gradient = gradient,
                                           .first = first,
                                           .second = second,
                                           .weights_out = made,
                                           .forward_weights = forward,
                                           .backward_weights = backward,
                                           .drift = drift,
                                           .decayed = spans.decayed,
                                           .last_step = last,
                                           .change = change},
                                          numbers);
    if (fault_ == Fault::copies_into_planes) {
      for (const std::span<Bf16> plane : {spans.forward_weights, spans.backward_weights})
        std::ranges::copy_n(as_bf16(made).begin(), std::ssize(plane), plane.begin());
    }
    if (fault_ == Fault::rounds_what_is_trained) {
      for (float& weight : spans.weights_out) weight = to_float(narrow<Bf16>(weight));
    }
    const bool right =
        std::ranges::equal(spans.weights_out, made) && std::ranges::equal(spans.first, first) &&
        std::ranges::equal(spans.second, second) && std::ranges::equal(spans.last_step, last) &&
        std::ranges::equal(spans.rounded, as_bf16(made)) &&
        std::ranges::equal(spans.forward_weights, as_bf16(forward)) &&
        std::ranges::equal(spans.backward_weights, as_bf16(backward)) &&
        std::ranges::equal(spans.drift, drift);
    ++steps_->count;
    if (!forward.empty() || !backward.empty()) ++steps_->with_planes;
    if (!right) ++steps_->wrong;
  }

 private:
  static std::vector<Bf16> as_bf16(const std::vector<float>& values) {
    return cuda::testing::rounded<Bf16>(values);
  }

  CpuContext* context_;
  Steps* steps_;
  Fault fault_;
};

struct DeviceSetup {
  Fault fault = Fault::none;
  std::deque<Steps> steps = {};  // of each device
};

class Bf16Device : public cpu::Backend<float> {
 public:
  using Scalar = Bf16;
  using Kernels = WatchedKernels;

  Bf16Device(DeviceSetup& setup, Wakeup& wakeup, std::stop_token stop)
      : cpu::Backend<float>(wakeup, std::move(stop)),
        fault_(setup.fault),
        steps_(setup.steps.emplace_back()) {}
  Kernels kernels(Stream&) { return {context_, steps_, fault_}; }

 private:
  CpuContext context_{false};
  Fault fault_;
  Steps& steps_;
};

static_assert(tandem::Backend<Bf16Device>);

struct Outcome {
  TrainingReport<float> report;
  Steps steps;
};

Outcome train_in_bf16(const TrainingCase& test, Fault fault = Fault::none) {
  const Program program = lower(test.make());
  const Data data = tandem::testing::data_of(test);
  const TrainingSetup<float> setup = tandem::testing::setup_of<float>(test, program, data);
  DeviceSetup devices{.fault = fault};
  Outcome outcome;
  outcome.report =
      TrainingRun<Bf16Device>(program, setup, [&](DeviceId, Wakeup& wakeup, std::stop_token stop) {
        return std::make_unique<Bf16Device>(devices, wakeup, std::move(stop));
      }).run();
  for (const Steps& steps : devices.steps) {
    outcome.steps.count += steps.count;
    outcome.steps.with_planes += steps.with_planes;
    outcome.steps.wrong += steps.wrong;
  }
  return outcome;
}

TrainingReport<double> train_in_double(const TrainingCase& test) {
  const Program program = lower(test.make());
  const Data data = tandem::testing::data_of(test);
  return train_on_cpu<double>(program, tandem::testing::setup_of<double>(test, program, data));
}

template <class T>
std::vector<double> all_weights(const TrainingReport<T>& report) {
  std::vector<double> values;
  for (const auto& tensor : report.weights) {
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  }
  return values;
}

double worst_loss(const std::vector<double>& losses, const std::vector<double>& expected) {
  EXPECT_EQ(losses.size(), expected.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    worst = std::max(worst, std::abs(losses[i] - expected[i]) / expected[i]);
  }
  return worst;
}

void expect_as_planned(const TrainingCase& test, const TrainingReport<float>& report) {
  const Program program = lower(test.make());
  const auto layers = tandem::testing::even_stages(test.model, program.placement().stages());
  Table<ReplicaId, StageBytes> bytes;
  for (const StageId stage : program.placement().stage) {
    bytes.push_back(stage_bytes(test.model, layers[index(stage)], test.microbatch_size,
                                test.optimizer.optimizer(), test.recompute, Storage::bf16,
                                parts_of(test.slices)));
  }
  const auto planned = memory_by_class(program, count_slots(program), bytes);
  for (const DeviceId device : ids(report.high_water)) {
    EXPECT_EQ(report.high_water[device], planned[id_at<DeviceId>(index(device) % planned.size())]);
  }
}

std::vector<TrainingCase> cases() {
  std::vector<TrainingCase> tests;
  const auto add = [&](const char* schedule, Recompute recompute, std::uint16_t width = 1) {
    TrainingCase test = TrainingCase::on(schedule, 2);
    test.recompute = recompute;
    test.width = width;
    test.optimizer.learning_rate = 2e-3;
    tests.push_back(test);
  };
  add("1f1b", Recompute::none);
  add("2bw", Recompute::stage, 2);
  add("2bw", Recompute::selective);
  add("2bw", Recompute::none);
  tests.back().optimizer.correction = DelayCorrection::error_feedback;
  add("2bw", Recompute::none, 2);
  tests.back().optimizer.kind = OptimizerKind::muon;
  add("zb-h1", Recompute::selective);
  add("pipedream", Recompute::none);
  for (const char* schedule : {"pipemare", "spectrain", "pipeoptim", "xpipe", "timeprest-i"})
    add(schedule, Recompute::none);
  // Parts of odd sizes among numbers that are not rounded; a norm that all stages decide by.
  add("gpipe", Recompute::none);
  tests.back().model.width = 9;
  tests.back().model.heads = 3;
  tests.back().model.sequence = 5;
  tests.back().guard = {.clip = ClipScope::global, .most_norm = 1.0};
  add("seq1f1b", Recompute::none);
  tests.back().slices = {3, 2, 1};
  add("terapipe", Recompute::full);
  tests.back().slices = {4, 2};
  return tests;
}

TEST(Bf16Training, IsThatOfDoublesButForRounding) {
  for (const TrainingCase& test : cases()) {
    SCOPED_TRACE(test.schedule);
    const Outcome outcome = train_in_bf16(test);
    const TrainingReport<double> expected = train_in_double(test);
    EXPECT_LT(worst_loss(outcome.report.losses, expected.losses), 1e-2);
    const double error = relative_error(all_weights(outcome.report), all_weights(expected));
    EXPECT_LT(error, 1e-2);
    EXPECT_GT(error, 1e-6);
    EXPECT_GT(outcome.steps.count, 0);
    EXPECT_EQ(outcome.steps.wrong, 0) << "of " << outcome.steps.count;
    const bool has_planes = std::ranges::any_of(test.make().readings, [](const Reading& reading) {
      return reading.corrects() || reading.predicts_forward();
    });
    EXPECT_EQ(outcome.steps.with_planes > 0, has_planes);
    expect_as_planned(test, outcome.report);
  }
}

void expect_equal(const TrainingReport<float>& one, const TrainingReport<float>& other) {
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(all_weights(one), all_weights(other));
}

TEST(Bf16Training, GivesTheSameBitsAgainAndByOtherSchedulesOfTheSameMeaning) {
  const TrainingCase test = TrainingCase::on("1f1b", 2);
  const TrainingReport<float> report = train_in_bf16(test).report;
  expect_equal(train_in_bf16(test).report, report);
  expect_equal(train_in_bf16(TrainingCase::on("gpipe", 2)).report, report);
  EXPECT_NE(all_weights(train_in_bf16(TrainingCase::on("2bw", 2)).report), all_weights(report));
}

// What is trained is never read rounded: with steps too small for bfloat16 it moves all the same.
TEST(Bf16Training, MovesByStepsThatBfloat16CannotShow) {
  TrainingCase test = TrainingCase::on("2bw", 2);
  test.optimizer.learning_rate = 1e-6;
  test.optimizer.weight_decay = 0.0;
  const std::vector<double> made = all_weights(train_in_bf16(test).report);
  const std::vector<double> expected = all_weights(train_in_double(test));
  test.optimizer.learning_rate = 0.0;
  const std::vector<double> initial = all_weights(train_in_double(test));
  double moved = 0.0, off = 0.0;
  for (std::size_t i = 0; i < initial.size(); ++i) {
    moved += std::pow(expected[i] - initial[i], 2);
    off += std::pow(made[i] - expected[i], 2);
  }
  EXPECT_GT(moved, 0.0);
  EXPECT_LT(off, 0.1 * moved);
}

TEST(Bf16Training, FaultsAreFound) {
  const TrainingCase test = TrainingCase::on("2bw", 2);
  const std::vector<double> expected = train_in_double(test).losses;
  // A version's slot is never written: its forward reads what was there.
  const Outcome stale = train_in_bf16(test, Fault::leaves_out_rounding);
  EXPECT_GT(worst_loss(stale.report.losses, expected), 1e-2);
  EXPECT_GT(stale.steps.wrong, 0);
  for (const char* schedule : {"pipemare", "pipeoptim"}) {
    TrainingCase reading = TrainingCase::on(schedule, 2);
    EXPECT_EQ(train_in_bf16(reading).steps.wrong, 0);
    EXPECT_GT(train_in_bf16(reading, Fault::copies_into_planes).steps.wrong, 0);
  }
  const Outcome coarse = train_in_bf16(test, Fault::rounds_what_is_trained);
  EXPECT_GT(coarse.steps.wrong, 0);
}

// What is trained is one copy, which can't be taken back.
TEST(Bf16Training, RefusesPostValidation) {
  TrainingCase test{.schedule = "zb-h2", .devices = 2, .post_validation = true};
  test.guard = {.clip = ClipScope::global, .most_norm = 0.5};
  EXPECT_THROW(train_in_bf16(test), InputError);
}

TEST(Bf16Training, StagesTakeWhatTheFormulasSayToTheByte) {
  ModelSpec odd = TrainingCase{}.model;
  odd.width = 9;
  odd.heads = 3;
  odd.sequence = 5;
  odd.vocabulary = 257;
  ModelSpec linear{.name = "linear", .architecture = Architecture::linear, .blocks = 3, .width = 5};
  linear.sequence = 3;
  for (const ModelSpec& model : {TrainingCase{}.model, odd, linear}) {
    const auto layers = static_cast<std::int32_t>(layers_of(model).size());
    for (std::int32_t first = 0; first < layers; ++first) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective}) {
        const StageSizes sizes =
            Stage<WatchedKernels>(model, {first, layers}, 3, 1.0, recompute).sizes();
        const StageBytes bytes =
            stage_bytes(model, {first, layers}, 3, OptimizerKind::adamw, recompute, Storage::bf16);
        EXPECT_EQ(bytes[SlotKind::weights], 2 * sizes.parameters);
        EXPECT_EQ(bytes[SlotKind::gradients], 4 * sizes.parameters);
        EXPECT_EQ(bytes.optimizer, 12 * sizes.parameters);
        EXPECT_EQ(bytes[SlotKind::stash], 2 * sizes.stash);
        EXPECT_EQ(bytes[SlotKind::kept_gradients], 2 * sizes.kept_gradients);
        EXPECT_EQ(bytes[SlotKind::input], 2 * sizes.boundary);
        EXPECT_EQ(bytes.workspace, 2 * sizes.scratch);
        const Stage<WatchedKernels> stage(model, {first, layers}, 3, 1.0, recompute);
        const StageBytes muon =
            stage_bytes(model, {first, layers}, 3, OptimizerKind::muon, recompute, Storage::bf16);
        const StateLayout state(OptimizerKind::muon, stage.parameters());
        EXPECT_EQ(muon.optimizer, 4 * (sizes.parameters + state.size()));
        const std::int64_t scratch = muon_scratch<Bf16, float>(stage.parameters());
        EXPECT_EQ(muon.workspace, 2 * std::max(sizes.scratch, scratch));
      }
    }
  }
}

// Their steps are watched as in training.
TEST(Bf16Training, IsProfiledAsItTrains) {
  const ModelSpec model = TrainingCase{}.model;
  const Data data(model, 2, 1);
  DeviceSetup device;
  Wakeup wakeup;
  Bf16Device backend(device, wakeup, {});
  ModelPasses<Bf16Device> passes(backend, model, 2, OptimizerKind::adamw, data);
  Tallies tallies;
  for (const bool updates : {true, false}) passes.pass(updates, &tallies);
  for (const LayerKind kind : layers_of(model)) {
    for (const Measured what : {Measured::forward, Measured::backward_weight, Measured::update})
      EXPECT_GT(tallies.at({0, kind})[static_cast<std::size_t>(what)].count, 0) << name(kind);
  }
  EXPECT_EQ(device.steps.front().count, std::ssize(layers_of(model)));
  EXPECT_EQ(device.steps.front().wrong, 0);
}

}  // namespace
}  // namespace tandem::cuda::testing
