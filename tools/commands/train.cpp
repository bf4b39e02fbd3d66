// tandem train PLAN: trains for real, by the program that was simulated.

#include "executor/train.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/base/packing.h"
#include "core/files/read.h"
#include "core/model/slice_lengths.h"
#include "core/text/count_text.h"
#include "core/text/output_place.h"
#include "executor/cpu/kernels.h"
#include "executor/stage/reference.h"
#include "executor/stage/reference_stages.h"
#include "planner/study/prepared_plan.h"
#include "simulator/simulate.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/machine.h"
#include "tools/cli/notices.h"
#include "tools/cli/options.h"
#include "tools/cli/processor_use.h"
#include "tools/commands/command.h"
#include "tools/commands/run_over_ranks.h"
#include "tools/commands/training.h"
#include "tools/options/given_options.h"
#include "tools/options/held_out_loss.h"
#include "tools/options/rank_options.h"
#include "tools/options/schedule_options.h"
#include "tools/options/training_options.h"
#include "tools/options/training_tokens.h"
#include "tools/print/progress_report.h"
#include "traces/chrome/chrome_trace.h"

namespace tandem::tools {
namespace {

using FloatReference = Reference<cpu::Kernels<float>>;

std::uint64_t hash_of(std::span<const float> values) {
  return hash_of_text({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// Hash of every tensor after every update.
using History = std::map<std::pair<std::int64_t, std::string>, std::uint64_t>;

FloatReference make_reference(const Training& training) {
  return FloatReference(
      training.prepared.plan.model,
      reference_config(training.prepared, training.optimizer, training.guard, training.seed),
      training.data, training.beginning.start());
}

std::vector<double> train_reference(const Training& training, ProgressReport& steps,
                                    HeldOutEvaluation* held_out, History* history,
                                    const std::stop_token& stop) {
  FloatReference reference = make_reference(training);
  const Plan& plan = training.prepared.plan;
  const std::vector<double> weights =
      loss_weights(plan.model.sequence, slice_lengths(plan.request.slices, plan.model));
  const auto start = std::chrono::steady_clock::now();
  Duration evaluating{};
  std::vector<double> losses;
  for (std::int64_t step = training.first_step(); step < training.steps; ++step) {
    if (stop.stop_requested()) throw Interrupted(fmt::format("interrupted after {} steps", step));
    const ReferenceState<float>& state = reference.state();
    reference.step([&](const ReferenceUpdate& update) {
      if (history == nullptr) return;
      for (const std::string& name : update.tensors)
        (*history)[{update.version, name}] = hash_of(state.weights.at(name));
    });
    losses.insert(losses.end(), state.losses.begin(), state.losses.end());
    double mean = 0.0;
    for (std::size_t i = 0; i < state.losses.size(); ++i) {
      mean +=
          weights[i % weights.size()] * state.losses[i] / static_cast<double>(state.losses.size());
    }
    const Duration since_start = std::chrono::steady_clock::now() - start - evaluating;
    steps.step({.batch = step,
                .loss = mean,
                .gradient_norm = state.gradient_norm,
                .since_start = since_start,
                .losses_since_start = since_start});
    if (held_out != nullptr && held_out->due(step + 1)) {
      const auto paused = std::chrono::steady_clock::now();
      steps.evaluated(step + 1, held_out->loss(state));
      evaluating += std::chrono::steady_clock::now() - paused;
    }
  }
  return losses;
}

StageSetup stage_setup(const Training& training) {
  const Plan& plan = training.prepared.plan;
  return {.model = plan.model,
          .microbatch_size = plan.microbatch_size,
          .recompute = plan.request.recompute,
          .storage = training.prepared.storage,
          .optimizer = training.optimizer,
          .guard = training.guard,
          .seed = training.seed,
          .data = &training.data,
          .slices = slice_lengths(plan.request.slices, plan.model)};
}

TrainingReport<float> train_pipeline(Trainer& trainer, const Training& training,
                                     const Options& options, ProgressReport& steps,
                                     History* history, Ranks* ranks, const std::stop_token& stop) {
  const PreparedPlan& prepared = training.prepared;
  const Plan& plan = prepared.plan;
  TrainingSetup<float> setup;
  setup.stage = stage_setup(training);
  setup.layers = plan.stages;
  setup.slots = prepared.slots;
  setup.batches = training.steps;
  setup.start = training.beginning.start();
  setup.keeper = training.checkpoints.get();
  setup.keep_timeline = options.has("trace");
  setup.on_step = [&](const StepReport& step) { steps.step(step); };
  if (HeldOutEvaluation* const held_out = training.held_out.get()) {
    setup.pause_every = held_out->every();
    setup.on_pause = [&steps, held_out](std::int64_t batches,
                                        std::span<const StageWeights<float>> weights) {
      steps.evaluated(batches, held_out->loss(weights));
    };
    if (ranks != nullptr && !ranks->is_first()) setup.on_pause = {};
  }
  if (history != nullptr) {
    setup.on_update = [&](const UpdateView<float>& update) {
      const Stage<cpu::Kernels<float>> layout(
          plan.model, plan.stages[index(prepared.program.placement().stage[update.replica])],
          plan.microbatch_size, 1.0);
      for (const Tensor& tensor : layout.parameters()) {
        const std::uint64_t hash = hash_of(update.weights.subspan(
            static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size())));
        const auto [kept, added] = history->try_emplace({update.version, tensor.name}, hash);
        // Copies of a stage must be alike: one that is not, is unlike the reference too.
        if (kept->second != hash) kept->second = 0;
      }
    };
  }
  if (!backend_of(options).on_host)
    setup.product_algorithms = product_algorithms_of(options.words()[0], plan);
  setup.link_rate = training.link_rate;
  setup.by_messages = by_messages(options);
  setup.watchdog = training.watchdog;
  setup.stop = stop;
  setup.on_stuck = print_last_error;
  setup.on_notice = print_note;
  std::optional<RunOverRanks> over_ranks;
  if (ranks != nullptr) over_ranks.emplace(*ranks, training, options, setup);
  TrainingReport<float> report = trainer.train(prepared.program, setup);
  if (over_ranks) over_ranks->finish(report.interrupted);
  return report;
}

/// All ranks' hashes, on the first one.
void gather_history(const Ranks& ranks, History& history) {
  Packer mine;
  for (const auto& [key, hash] : history) mine.add(key.first).add_text(key.second).add(hash);
  for (const std::string& brought : ranks.group().gather(mine.take())) {
    for (Unpacker from(brought); !from.empty();) {
      const auto version = from.get<std::int64_t>();
      const std::string name(from.text());
      const auto hash = from.get<std::uint64_t>();
      const auto [kept, added] = history.try_emplace({version, name}, hash);
      if (kept->second != hash) kept->second = 0;
    }
  }
}

/// Throws DifferenceError naming the first difference.
void compare_with_reference(const Training& training, const std::vector<double>& losses,
                            const History& history, const std::stop_token& stop) {
  History expected;
  ProgressReport silent(training.prepared.plan, {.steps = training.steps, .quiet = true});
  const std::vector<double> expected_losses =
      train_reference(training, silent, nullptr, &expected, stop);
  for (std::size_t i = 0; i < expected_losses.size(); ++i) {
    if (losses[i] == expected_losses[i]) continue;
    throw DifferenceError(
        fmt::format("loss of {} {}: {} by the program, {} by the reference",
                    training.prepared.schedule.slices == 1 ? "microbatch" : "slice", i, losses[i],
                    expected_losses[i]));
  }
  for (const auto& [key, hash] : expected) {
    const auto found = history.find(key);
    if (found != history.end() && found->second == hash) continue;
    throw DifferenceError(
        fmt::format("{} differs from the reference after update {}", key.second, key.first));
  }
  if (history.size() != expected.size())
    throw DifferenceError("the program trained tensors that the reference does not have");
}

/// The simulated timeline of the same run; null: it is not asked for. Made before the first step,
/// so that a profile that can't serve is told of then.
std::optional<Timeline> prediction_of(const Training& training, const Options& options) {
  if (!options.has("with-prediction")) return std::nullopt;
  const Plan& plan = training.prepared.plan;
  const Program& program = training.prepared.program;
  const Profile profile = read_profile(profile_path_of(options.words()[0], plan));
  const StageCosts costs = costs_of(plan, profile, training.link_rate);
  const CostTable prices = price(program, cost_model(program.placement(), costs));
  const std::int64_t first = training.first_step();
  Timeline timeline = simulate(program, prices, {.batches = training.steps - first, .record = true})
                          .timeline.value();
  // A run that goes on begins with an empty pipeline, too, but counts on.
  for (Span& span : timeline.spans) span.body += first;
  return timeline;
}

void write_trace(const Training& training, const std::optional<Timeline>& prediction,
                 const Options& options, const TrainingReport<float>& report) {
  const PreparedPlan& prepared = training.prepared;
  TraceMemory memory{.devices = planned_memory(prepared), .stash = stash_bytes_of(prepared.bytes)};
  std::vector<TraceRun> runs;
  for (std::size_t pipeline = 0; pipeline < report.timelines.size(); ++pipeline) {
    for (const DeviceId device : ids(memory.devices)) {
      const std::size_t all = pipeline * memory.devices.size() + index(device);
      memory.devices[device] = report.high_water[id_at<DeviceId>(all)];
    }
    runs.push_back(
        {.timeline = &report.timelines[pipeline],
         .label = pipeline == 0 ? std::string() : fmt::format("measured, pipeline {}", pipeline),
         .memory = memory});
  }
  if (prediction)
    runs.push_back({.timeline = &*prediction, .label = {}, .memory = std::move(memory)});
  write_chrome_trace(
      options.text("trace"), prepared.program, runs,
      {.tool = tool_name(), .about = {{"plan", options.words()[0]}, {"machine", machine_name()}}});
}

int finish(const Training& training, const Options& options, const ProgressReport& steps,
           const std::vector<MemoryUse>& memory, const std::string& checkpoint) {
  const Plan& plan = training.prepared.plan;
  const double step_s = steps.median_step_s();
  const double predicted_s = plan.predicted.period_s;
  if (options.has("json")) {
    const auto held_out_json = [](const auto& row) -> Json {
      return {{"step", row.first}, {"loss", row.second}};
    };
    Json result{{"losses", steps.losses()},
                {"step_s", step_s},
                {"predicted_step_s", predicted_s},
                {"elapsed_s", to_seconds(steps.elapsed())},
                {"tokens_per_s", steps.tokens_per_s()},
                {"rollbacks", steps.rollbacks()},
                {"validation", array_of(steps.held_out_losses(), held_out_json)},
                {"memory", memory_json(memory)},
                {"peak_resident_bytes", peak_resident_memory()},
                {"checkpoint", checkpoint.empty() ? Json() : Json(checkpoint)},
                {"verified", options.has("verify")}};
    print_result("train",
                 {{"plan", options.words()[0]},
                  {"schedule", plan.schedule},
                  {"steps", training.steps},
                  {"seed", training.seed},
                  {"learning_rate", training.optimizer.learning_rate},
                  {"lr_schedule", name(training.optimizer.schedule.kind)}},
                 {{"weights", name(weight_semantics(plan))}}, std::move(result));
    return 0;
  }
  fmt::print("{} in {}, {:.0f} tokens/s; loss {:.4f} -> {:.4f}; median step {:.2f} ms",
             counted(training.steps - training.first_step(), "step"),
             print_duration(steps.elapsed()), steps.tokens_per_s(), steps.losses().front(),
             steps.losses().back(), step_s * 1e3);
  if (predicted_s > 0) {
    fmt::print(", predicted {:.2f} ms: {:+.1f} %", predicted_s * 1e3,
               100.0 * (predicted_s / step_s - 1.0));
  }
  fmt::print("\n");
  if (plan.request.post_validation)
    fmt::print("{} of {} updates were rolled back\n", steps.rollbacks(), steps.losses().size());
  print_memory(memory);
  fmt::print("{}\n", checkpoint.empty() ? "The weights are not kept: --checkpoint DIR keeps them."
                                        : "checkpoint: " + checkpoint);
  if (options.has("verify"))
    fmt::print(
        "verified: every weight after every update equals the serial reference, bit for bit\n");
  return 0;
}

}  // namespace

Options options_of_train() {
  Options options("train", "PLAN [options]",
                  "Trains the plan's model for real, by the program that was simulated.");
  options.words("PLAN", 1, 1).group("Run");
  options.value("steps", "N", "updates to train, those before --resume too (default 20)")
      .value("seed", "N", "seed of weights and data (default 1, or that of --resume)");
  add_data_options(options);
  options
      .value("watchdog", "TIME",
             "end a run in which no device makes progress for this long (default 30s)")
      .value("on-nan", "ACTION", "stop|skip an update whose gradient is not finite");
  options.group("Updates");
  add_optimizer_options(options);
  for (const char* flag : {"delay-correction", "clip"}) declare(options, flag);
  add_post_validation_option(options);
  options.group("Devices");
  add_backend_options(options);
  options.value("link-rate", "RATE",
                "rate of the links between devices, such as 1Gb/s (default: as fast as memory)");
  add_kernel_options(options);
  options.group("Ranks");
  add_rank_options(options);
  options.group("Checks");
  options.flag("reference", "train the serial reference with the same weight semantics instead")
      .flag("verify", "train both, and compare every weight after every update, bit for bit");
  add_held_out_options(options);
  options.group("Files");
  options.output("log", "FILE.jsonl", "write a JSON object a step")
      .value("tensorboard", "DIR", "write event files for TensorBoard into this folder")
      .value("metrics", "PORT",
             "serve figures for Prometheus on this machine's loopback (0: a free port)")
      .output("trace", "FILE", "write the measured timeline as a Chrome trace")
      .flag("with-prediction", "add the simulated timeline to the trace");
  options.group("Checkpoints");
  add_checkpoint_options(options);
  return options;
}

namespace {

/// Before it is trained: what ranks can't see of one another's files.
void agree(const Ranks& ranks, const Training& training) {
  ranks.group().agree("text to train on", training.data.tokens().digest());
  const CheckpointInfo* const before = training.beginning.info();
  const std::int64_t start[] = {training.first_step(), before != nullptr ? before->samples : 0};
  ranks.group().agree("beginning", hash_of_times(start, 0));
}

int train_here(const Options& options, const RankPlace* place, Ranks* ranks) {
  const bool is_first = ranks == nullptr || ranks->is_first();
  const MonitorSetup monitors = is_first ? monitor_setup(options) : MonitorSetup();
  const Training training = prepare_training(options, place, ranks);
  if (ranks != nullptr) agree(*ranks, training);
  if (training.first_step() == training.steps) {
    ranks->group().barrier();  // none is gone while another still compares
    ranks->group().part();
    const std::string& kept = training.beginning.checkpoint->path();
    if (is_first) print_note(fmt::format("all {} steps are trained: {}", training.steps, kept));
    return 0;
  }
  const std::optional<Timeline> prediction =
      is_first ? prediction_of(training, options) : std::nullopt;
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  ProgressReport steps(training.prepared.plan,
                       {.steps = training.steps,
                        .first_step = training.first_step(),
                        .evaluate_every = training.held_out ? training.held_out->every() : 0,
                        .optimizer = training.optimizer,
                        .monitors = monitors,
                        .quiet = options.has("json") || !is_first},
                       is_first ? options.text("log") : std::string());
  if (options.has("reference")) {
    train_reference(training, steps, training.held_out.get(), nullptr, interrupt.token());
    return finish(training, options, steps, {}, {});
  }
  const std::unique_ptr<Trainer> trainer = backend_of(options).make();
  History history;
  const TrainingReport<float> report =
      train_pipeline(*trainer, training, options, steps, options.has("verify") ? &history : nullptr,
                     ranks, interrupt.token());
  steps.close();
  if (options.has("trace") && is_first) write_trace(training, prediction, options, report);
  const std::string checkpoint =
      training.checkpoints ? training.checkpoints->finish() : std::string();
  if (report.interrupted) {
    throw Interrupted(
        fmt::format("interrupted after {} steps{}", steps.losses().size(),
                    checkpoint.empty() ? "" : "; the newest checkpoint is " + checkpoint));
  }
  if (options.has("verify") && ranks != nullptr) gather_history(*ranks, history);
  if (!is_first) return 0;
  if (options.has("verify"))
    compare_with_reference(training, report.losses, history, interrupt.token());
  return finish(
      training, options, steps,
      memory_use(planned_memory(training.prepared),
                 trainer->planned_workspace(training.prepared.program, stage_setup(training)),
                 report),
      checkpoint);
}

}  // namespace

int run_train(const Options& options) {
  check_backend(options);
  prepare_transport(options);
  if (options.has("reference") && (options.has("verify") || options.has("trace")))
    refuse(options, "--reference is serial: it has no trace, and nothing to verify");
  if (options.has("reference") && options.has("checkpoint"))
    refuse(options, "--reference is serial: it writes no checkpoints");
  if (options.has("with-prediction") && !options.has("trace"))
    refuse(options, "--with-prediction is for --trace: give --trace FILE");
  if (options.has("trace")) check_can_write(options.text("trace"));
  const std::optional<RankPlace> place = rank_place_of(options);
  check_ranks(options, place ? &*place : nullptr);
  if (place && options.has("reference"))
    refuse(options, "--reference is serial: it is for one process");
  choose_kernels(options, backend_of(options).on_host || options.has("reference"));
  if (!place) return train_here(options, nullptr, nullptr);
  Ranks ranks(options, *place, options.words()[0]);
  try {
    return train_here(options, &*place, &ranks);
  } catch (const std::exception& error) {
    ranks.fail(error);
    throw;
  }
}

}  // namespace tandem::tools
