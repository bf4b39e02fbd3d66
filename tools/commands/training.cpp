#include "tools/commands/training.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/files/plan_cluster.h"
#include "core/files/read.h"
#include "core/model/slice_lengths.h"
#include "executor/checkpoint/semantics_digest.h"
#include "executor/stage/reference_stages.h"
#include "planner/cluster/plan_of_cluster.h"
#include "tools/cli/json_output.h"
#include "tools/cli/machine.h"
#include "tools/cli/memory_folder.h"
#include "tools/cli/notices.h"
#include "tools/commands/training_need.h"
#include "tools/options/schedule_options.h"
#include "tools/options/training_options.h"
#include "tools/options/training_tokens.h"

namespace tandem::tools {
namespace {

constexpr double kMostTracedOps = 20e6;

/// What --clip and --on-nan say.
GradientGuard guard_of(const Options& options, const std::optional<Clipping>& clip) {
  GradientGuard guard;
  if (clip) {
    guard.clip = clip->per_stage ? ClipScope::per_stage : ClipScope::global;
    guard.most_norm = clip->norm;
  }
  if (options.choice("on-nan", {"stop", "skip"}) == "skip") guard.on_nan = NonFinite::skip;
  return guard;
}

void check_trace_size(const PreparedPlan& prepared, std::int64_t steps, const Options& options) {
  const auto ops = static_cast<double>(prepared.program.size());
  if (!options.has("trace") || ops * static_cast<double>(steps) <= kMostTracedOps) return;
  throw InputError(
      fmt::format("a trace of {} steps is too large: at most {:.0f}", steps, kMostTracedOps / ops));
}

/// `restarted`: then the run may have failed behind its last step.
std::int64_t steps_of(const Options& options, const Beginning& beginning, bool restarted) {
  const std::int64_t steps = options.integer("steps", 1, 100'000'000, 20);
  if (steps > beginning.batches() || (restarted && steps == beginning.batches())) return steps;
  throw InputError(fmt::format("{} steps are trained already: --steps {} is no further one",
                               beginning.batches(), steps));
}

/// The plan at `path`. That of a cluster has its times, not those of this machine: they are left
/// out. Throws InputError where it can't be trained here.
Plan trainable_plan(const std::string& path, bool says_so) {
  Plan plan = read_plan(path);
  if (!plan.cluster) return plan;
  const std::string& cluster = plan.cluster->name;
  if (const std::string reason = why_not_trained_here(plan); !reason.empty()) {
    throw InputError(fmt::format(
        "{}: a plan of cluster {}, which can't be trained here: {}; tandem export {} hands it over "
        "to another engine",
        path, cluster, reason, path));
  }
  if (says_so) {
    print_note(
        fmt::format("the plan was made for cluster {}: this machine's times are others", cluster));
  }
  plan.predicted = {};
  plan.profile.clear();
  return plan;
}

/// That of the run before, where none is given.
std::uint64_t seed_of(const Options& options, const Beginning& beginning) {
  const std::uint64_t otherwise = beginning.info() != nullptr ? beginning.info()->seed : 1;
  return static_cast<std::uint64_t>(options.integer(
      "seed", 0, std::numeric_limits<std::int64_t>::max(), static_cast<std::int64_t>(otherwise)));
}

/// What checkpoints say of the run, at its start.
CheckpointInfo info_of(const PreparedPlan& prepared, const ReferenceConfig& config,
                       const Beginning& beginning, const Tokens& tokens, SampleOrder order) {
  const Plan& plan = prepared.plan;
  const OptimizerConfig& optimizer = config.optimizer;
  const std::int64_t microbatches = config.microbatches / config.slice_count();
  CheckpointInfo info{.written_by = tool_name(),
                      .model = plan.model,
                      .schedule = plan.schedule,
                      .optimizer = optimizer.optimizer(),
                      .seed = config.seed,
                      .semantics = semantics_digest(plan.model, config),
                      .summation = summation_digest(plan.model, config),
                      .samples_a_batch = microbatches * plan.request.width * plan.microbatch_size};
  info.settings = {
      {"learning rate", fmt::format("{}", optimizer.learning_rate)},
      {"learning-rate schedule",
       fmt::format("{}, warm-up {}", name(optimizer.schedule.kind), optimizer.schedule.warmup)},
      {"weight decay", fmt::format("{}", optimizer.weight_decay)},
      {"tokens of the data", fmt::format("{}", tokens.size())},
      {"order of samples", order == SampleOrder::shuffled ? "shuffled" : "random"}};
  if (const CheckpointInfo* const before = beginning.info()) {
    info.batches = before->batches;
    info.samples = before->samples;
  }
  return info;
}

/// All ranks do it at once. Null where --buddy is not given.
std::unique_ptr<KeptCopies> kept_copies(const Options& options, const PreparedPlan& prepared,
                                        const RankPlace* place, const Ranks* ranks) {
  const std::string folder = copies_folder(options, place);
  if (folder.empty()) return nullptr;
  const Plan& plan = prepared.plan;
  auto copies = std::make_unique<KeptCopies>();
  copies->folder = join_memory_folder(folder);
  copies->exchange = std::make_unique<CopyExchange>(
      ranks->group(), folder,
      stages_of_ranks(prepared.program, prepared.slots, plan.model, plan.stages,
                    ranks->device_ranks(prepared.program), ranks->count(), options.has("verify")),
      prepared.program.ramp(), newest_checkpoint_of(options));
  return copies;
}

/// The tensors of some stages.
std::vector<KeptTensor> kept_of(const std::set<std::size_t>& stages, const Plan& plan,
                                const std::vector<KeptTensor>& kept) {
  const auto stage_of = stages_of_tensors(plan.model, plan.stages);
  std::vector<KeptTensor> of;
  std::ranges::copy_if(kept, std::back_inserter(of), [&](const KeptTensor& each) {
    return stages.contains(stage_of.at(each.tensor.name));
  });
  return of;
}

/// What the ranks go on from; null where they begin otherwise.
std::unique_ptr<CopiedState> copied_state(const KeptCopies& copies, const std::string& folder,
                                          const Plan& plan, const std::vector<KeptTensor>& kept) {
  const CopyExchange& exchange = *copies.exchange;
  if (!exchange.newest()) return nullptr;
  auto state =
      CopiedState::after(*exchange.newest(), folder, kept_of(exchange.stages_read(), plan, kept));
  if (state == nullptr)
    throw DeviceError(fmt::format("copies in {} are not what they were", folder));
  return state;
}

/// Copies in this host's memory, as many as there may be at once.
double bytes_of_copies(const CopyExchange& exchange, const Plan& plan,
                       const std::vector<KeptTensor>& kept) {
  return static_cast<double>(exchange.keep() + 1) *
         copied_bytes(plan.model, kept_of(exchange.stages_here(), plan, kept));
}

/// Throws InfeasibleError where they have no room. What an earlier start has left is in it.
void check_room(const std::string& folder, double bytes) {
  const double free = static_cast<double>(std::filesystem::space(folder).available);
  if (bytes <= free) return;
  throw InfeasibleError(fmt::format("copies of the newest steps (--buddy) take {}, and {} has {}",
                                    print_bytes(std::llround(bytes)), folder,
                                    print_bytes(std::llround(free))));
}

}  // namespace

ReferenceConfig reference_config(const PreparedPlan& prepared, const OptimizerConfig& optimizer,
                                 const GradientGuard& guard, std::uint64_t seed) {
  const Plan& plan = prepared.plan;
  const WeightSemantics semantics = weight_semantics(plan);
  return {.semantics = semantics,
          .optimizer = optimizer,
          .guard = guard,
          .microbatches = prepared.schedule.microbatches,
          .microbatch_size = plan.microbatch_size,
          .width = plan.request.width,
          .seed = seed,
          .slices = slice_lengths(plan.request.slices, plan.model),
          .stages = reference_stages(prepared.schedule, plan.stages, semantics),
          .clip_ranges = plan.stages};
}

Training prepare_training(const Options& options, const RankPlace* place, const Ranks* ranks) {
  const bool is_first = place == nullptr || place->rank == 0;
  const GivenOptions given =
      given_options(options, {"clip", "delay-correction", "post-validation", "storage"});
  const GradientGuard guard = guard_of(options, given.clip);
  const std::string& path = options.words()[0];
  Plan asked = trainable_plan(path, is_first);
  asked.optimizer.correction = given.delay_correction.value_or(asked.optimizer.correction);
  PreparedPlan prepared = prepare_plan(
      path, std::move(asked), guard.is_global() ? std::optional(true) : given.global_norm(),
      given.post_validation(), given.storage);
  const Plan& plan = prepared.plan;
  const bool restarted = place != nullptr && place->restarts > 0;
  const std::vector<KeptTensor> kept =
      kept_tensors(prepared.program, prepared.slots, plan.model, plan.stages, plan.optimizer);
  auto copies = kept_copies(options, prepared, place, ranks);
  Beginning beginning =
      beginning_of(options, plan, restarted,
                   copies ? copied_state(*copies, place->copies, plan, kept) : nullptr);
  if (beginning.copy && is_first)
    print_note(fmt::format("goes on from step {}, which is in memory", beginning.batches()));
  const std::int64_t steps = steps_of(options, beginning, restarted);
  const std::uint64_t seed = seed_of(options, beginning);
  check_trace_size(prepared, steps - beginning.batches(), options);
  const OptimizerConfig optimizer =
      optimizer_config(options, plan.optimizer, steps, !prepared.schedule.readings.empty());
  Tokens tokens =
      options.has("data") ? read_tokens(options.text("data")) : shipped_training_tokens();
  const auto tokenizer = text_tokenizer(options, beginning.folder());
  if (tokenizer) tokens = tokenizer->tokens_of(std::move(tokens));
  const SampleOrder order = data_order(options);
  const CheckpointInfo info = info_of(prepared, reference_config(prepared, optimizer, guard, seed),
                                      beginning, tokens, order);
  if (beginning.checkpoint && is_first) tell_differences(beginning.checkpoint->info(), info);
  Data data(plan.model, plan.microbatch_size, seed, std::move(tokens), order);
  data.shift(info.samples - info.batches * info.samples_a_batch);
  auto held_out = HeldOutEvaluation::from(options, plan, tokenizer);
  const double in_memory = copies ? bytes_of_copies(*copies->exchange, plan, kept) : 0.0;
  if (copies && !restarted && copies->exchange->is_first_here())
    check_room(place->copies, in_memory);
  check_training_need(prepared, steps - beginning.batches(), options,
                      is_first ? kept : std::vector<KeptTensor>(),
                      place == nullptr ? 1.0 : 1.0 * place->local_ranks / place->ranks, in_memory);
  auto checkpoints = is_first
                         ? checkpoint_writer(options, info, steps, kept,
                                             tokenizer ? tokenizer->files : std::vector<KeptFile>())
                         : nullptr;
  if (copies) {
    copies->writer = std::make_unique<StateCopies>(
        place->copies, info, plan.stages, steps, copies->exchange->keep(),
        [&exchange = *copies->exchange](const StageCopy& copy) { exchange.pass_on(copy); });
  }
  return {.prepared = std::move(prepared),
          .optimizer = optimizer,
          .guard = guard,
          .link_rate =
              options.has("link-rate") ? std::optional(options["link-rate"].rate()) : std::nullopt,
          .watchdog = options.has("watchdog") ? options["watchdog"].duration()
                                              : Duration(std::chrono::seconds(30)),
          .steps = steps,
          .seed = seed,
          .data = std::move(data),
          .held_out = std::move(held_out),
          .beginning = std::move(beginning),
          .checkpoints = std::move(checkpoints),
          .copies = std::move(copies)};
}

MonitorSetup monitor_setup(const Options& options) {
  MonitorSetup setup{.tensorboard = options.text("tensorboard")};
  if (options.has("metrics")) {
    setup.metrics = std::make_shared<MetricsServer>(
        static_cast<std::uint16_t>(options.integer("metrics", 0, 65'535, 0)));
  }
  return setup;
}

}  // namespace tandem::tools
