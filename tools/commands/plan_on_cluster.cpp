#include "tools/commands/plan_on_cluster.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/schedule/options.h"
#include "core/text/count_text.h"
#include "core/text/output_place.h"
#include "planner/cluster/cluster_search.h"
#include "planner/cluster/plan_of_cluster.h"
#include "planner/search/explain.h"
#include "planner/study/timed_search.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/split.h"
#include "tools/commands/plan_output.h"
#include "tools/commands/plan_published.h"
#include "tools/options/cluster_options.h"
#include "tools/options/given_options.h"
#include "tools/print/cluster_plan_words.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostGlobalBatch = 1'000'000'000;
constexpr std::size_t kShown = 10;

/// What is searched unless it is given.
constexpr std::array kSearched{"tensor", "depth",     "width",        "chunks",  "microbatch-size",
                               "zero",   "recompute", "device-order", "schedule"};
/// What is given once and holds for every plan: `simulate` takes it as it stands.
constexpr std::array kPassedOn{"gpu",
                               "cut",
                               "sequence",
                               "dtype",
                               "attention",
                               "optimizer",
                               "delay-correction",
                               "memory",
                               "reserve",
                               "fits-by",
                               "transfers",
                               "clip",
                               "product-fraction",
                               "memory-fraction",
                               "link-fraction",
                               "collectives",
                               "calibration",
                               "profile"};

template <class Number>
std::optional<Number> given_number(const Options& options, const std::string& name) {
  if (!options.has(name)) return std::nullopt;
  return static_cast<Number>(
      options.integer(name, 1, std::numeric_limits<std::uint16_t>::max(), 1));
}

}  // namespace

ClusterQuestion cluster_question_of(const Options& options) {
  for (const char* name : {"model", "global-batch"}) {
    if (!options.has(name)) refuse(options, "--{} is missing", name);
  }
  for (const char* name : {"schedule-file", "storage"}) {
    if (options.has(name)) refuse(options, "--{} is not for a plan on a cluster", name);
  }
  std::vector<std::string_view> read{"model", "cluster", "semantics", "device-order", "zero"};
  read.insert(read.end(), kPassedOn.begin(), kPassedOn.end());
  GivenOptions given = given_options(options, read);
  given.flags.erase("devices");  // at most: it is no shape
  ClusterQuestion question{.base =
                               cluster_request(given, plain_schedule(), OtherOptions::passed_over)};
  question.base.plan.request.global_norm = given.global_norm().value_or(false);
  question.global_batch = options.integer("global-batch", 1, kMostGlobalBatch, 1);
  question.vanilla_only = given.vanilla_only;
  if (options.has("objective")) {
    question.objective =
        *one_of(options["objective"], {Objective::throughput, Objective::memory, Objective::cost});
  }
  const std::string schedules = options.text("schedule");
  for (const std::string_view name : split(schedules, ",")) {
    if (name.empty()) continue;
    const ScheduleTraits& row = find_schedule(name);
    if (is_search(row))
      refuse(options, "schedule {} is for plain costs, not for a model", row.name);
    question.schedules.emplace_back(row.name);
  }
  question.most_devices = options.integer("devices", 1, kMostClusterDevices, 0);
  question.tensor = given_number<std::int32_t>(options, "tensor");
  question.microbatch_size = given_number<std::int32_t>(options, "microbatch-size");
  question.depth = given_number<std::uint16_t>(options, "depth");
  question.width = given_number<std::uint16_t>(options, "width");
  question.chunks = given_number<std::uint16_t>(options, "chunks");
  if (options.has("recompute")) {
    question.recompute = parse_recompute(options.text("recompute"));
    if (!question.recompute) options["recompute"].reject(std::string(kRecomputeNames));
  }
  if (options.has("gap")) {
    const std::optional<double> gap = parse_percent(options.text("gap"));
    if (!gap || *gap < 0.0 || *gap > 0.5) options["gap"].reject("a share up to 50%, such as 1%");
    question.gap = *gap;
  }
  if (options.has("zero")) question.sharded_optimizer = given.sharded_optimizer;
  if (options.has("device-order")) question.order = given.device_order;
  return question;
}

/// What `simulate` is told to simulate this plan and no other.
static std::string simulate_command(const Options& options, const ClusterCandidate& of) {
  const ScheduleRequest& request = of.plan.request;
  const AnalyticAssumptions& assumptions = of.request.assumptions;
  std::string text = fmt::format("tandem simulate --model {} --cluster {} --schedule {}",
                                 options.text("model"), options.text("cluster"), of.plan.schedule);
  const auto add = [&text](std::string_view flag, const auto& value) {
    text += fmt::format(" --{} {}", flag, value);
  };
  if (assumptions.tensor > 1) add("tensor", assumptions.tensor);
  if (assumptions.sequence_parallel) text += " --sequence-parallel";
  if (request.replicas.empty()) add("depth", request.devices);
  add("width", request.width);
  add("microbatch-size", of.plan.microbatch_size);
  add("global-batch", *of.request.global_batch);
  const ScheduleTraits& traits = find_schedule(of.plan.schedule);
  for (const ScheduleOption& option : schedule_options()) {
    if (option.flag.empty() || option.flag == "width" || !takes(traits, option)) continue;
    if (!is_unset(option, of.request.plan.request))
      add(option.flag, option_text(option, of.request.plan.request));
  }
  if (assumptions.sharded_optimizer) add("zero", 1);
  if (of.request.cut == StageCut::even) text += " --cut even";
  std::string stages;
  for (const LayerRange stage : of.plan.stages)
    stages += fmt::format("{}{}-{}", stages.empty() ? "" : ",", stage.first, stage.last);
  if (of.request.cut == StageCut::given) add("stages", stages);
  if (of.request.order != DeviceOrder::replicas_first) add("device-order", name(of.request.order));
  for (const char* flag : kPassedOn) {
    if (options.has(flag)) add(flag, options.text(flag));
  }
  return text;
}

Json candidate_json(const Options& options, const ClusterCandidate& of) {
  const Plan& plan = of.plan;
  return {{"schedule", plan.schedule},
          {"semantics", name(of.weights)},
          {"tensor", of.request.assumptions.tensor},
          {"depth", plan.request.devices},
          {"width", plan.request.width},
          {"devices", of.devices},
          {"chunks", plan.request.chunks},
          {"slices", plan.request.slices.count},
          {"microbatch_size", plan.microbatch_size},
          {"microbatches", plan.request.microbatches},
          {"extra_in_flight", plan.request.extra_in_flight},
          {"recompute", name(plan.request.recompute)},
          {"zero", of.request.assumptions.sharded_optimizer ? 1 : 0},
          {"device_order", name(of.request.order)},
          {"stages", stages_json(plan)},
          {"period_s", of.period_s},
          {"throughput_samples_per_s", plan.predicted.samples_per_s},
          {"flops_per_s_device", model_flops_per_s(of)},
          {"peak_bytes", of.peak_bytes},
          {"usd", of.usd ? Json(*of.usd) : Json()},
          {"command", simulate_command(options, of)}};
}

namespace {

Json as_json(const Options& options, const ScheduleOutcome& of) {
  return {{"schedule", of.schedule->name},
          {"best", of.best ? candidate_json(options, *of.best) : Json()},
          {"simulated", of.simulated},
          {"too_large", of.too_large},
          {"bound", of.bound > 0.0 ? Json(of.bound) : Json()}};
}

Json as_json(const Options& options, const ClusterQuestion& question, const ClusterAnswer& answer) {
  Json ranked = Json::array();
  for (std::size_t i = 0; i < std::min(kShown, answer.ranked.size()); ++i)
    ranked.push_back(candidate_json(options, answer.ranked[i]));
  Json rejected = Json::array();
  for (const RejectedGroup& of : group(answer.rejected)) {
    rejected.push_back({{"cause", name(of.cause)},
                        {"count", of.count},
                        {"nearest", of.nearest.what},
                        {"reason", of.nearest.reason}});
  }
  return {{"ranked", std::move(ranked)},
          {"schedules",
           array_of(answer.schedules, [&](const auto& of) { return as_json(options, of); })},
          {"explanation", answer_in_words(question, answer)},
          {"bound", answer.bound},
          {"gap", answer.gap()},
          {"any_cut_bound", answer.any_cut},
          {"rejected", std::move(rejected)},
          {"layouts", answer.frames},
          {"shapes", answer.shapes},
          {"simulated", answer.simulated},
          {"interrupted", answer.interrupted}};
}

}  // namespace

Json cluster_config(const Options& options, const ClusterQuestion& question) {
  Json given = Json::object();
  for (const char* flag : kSearched) {
    if (options.has(flag)) given[flag] = options.text(flag);
  }
  for (const char* flag : kPassedOn) {
    if (options.has(flag)) given[flag] = options.text(flag);
  }
  return {{"model", question.base.plan.model.name},
          {"cluster", question.base.cluster->name()},
          {"cluster_devices", question.base.cluster->size()},
          {"devices", question.devices()},
          {"global_batch", question.global_batch},
          {"objective", name(question.objective)},
          {"semantics", question.vanilla_only ? "vanilla" : "any"},
          {"optimizer", name(question.base.plan.optimizer.kind)},
          {"given", std::move(given)},
          {"output", options.has("output") ? Json(options.text("output")) : Json()}};
}

Json cluster_assumptions(const ClusterQuestion& question) {
  const AnalyticAssumptions& assumptions = question.base.assumptions;
  return {{"dtype", name(assumptions.format)},
          {"attention", assumptions.attention == AttentionKernel::flash ? "flash" : "plain"},
          {"fits_by", name(assumptions.fits_by)},
          {"reserve", reserve_json(assumptions.reserve)}};
}

namespace {

[[noreturn]] void refuse_all(const ClusterQuestion& question, const ClusterAnswer& answer) {
  std::size_t too_large = 0;
  for (const ScheduleOutcome& of : answer.schedules) too_large += of.too_large;
  std::string why = fmt::format("no plan of {} on {}", question.base.plan.model.name,
                                question.base.cluster->name());
  if (answer.interrupted) throw Interrupted("interrupted: " + why + " was found yet");
  if (too_large > 0) why += fmt::format(": {} do not fit in memory", counted(too_large, "shape"));
  if (answer.frames == 0) {
    throw InfeasibleError(
        fmt::format("{}: no depth and width within its devices share a batch of {} out in "
                    "microbatches of up to "
                    "32 samples",
                    why, question.global_batch));
  }
  for (const RejectedGroup& of : group(answer.rejected))
    why += fmt::format("\n  {}, the first: {}: {}", counted(of.count, "refusal"), of.nearest.what,
                       of.nearest.reason);
  throw InfeasibleError(why);
}

}  // namespace

void add_cluster_plan_options(Options& options) {
  options.group("On a cluster, in place of a profile");
  for (const char* flag : {"cluster", "gpu", "tensor", "depth", "zero", "device-order", "cut",
                           "microbatch-size", "sequence", "dtype", "attention", "transfers"})
    declare(options, flag);
  options.value("width", "W", "pipelines side by side (default: searched)")
      .value("chunks", "V",
             "stages on each device, of schedules that have several (default: searched)")
      .value("recompute", "KIND",
             fmt::format("{} (default: none, selective and full)", kRecomputeNames))
      .value(
          "objective", "WHAT",
          "what the plan has the least of: throughput (its step's time, the default), memory (of "
          "the fullest device), cost (of a step, at the devices' usd_per_hour)")
      .value("gap", "SHARE",
             "end the search when no plan can be better by more than this, such as 1% (default: "
             "when none can)")
      .value("planner", "NAMES",
             "what published planners make of it, and how ours compares: " + published_names());
  options.group("Assumptions on a cluster");
  for (const char* flag : {"product-fraction", "memory-fraction", "link-fraction", "collectives",
                           "calibration", "fits-by"})
    declare(options, flag);
}

int run_plan_on_cluster(const Options& options) {
  if (options.has("planner")) return run_published_planners(options);
  const ClusterQuestion question = cluster_question_of(options);
  const std::string output = options.text("output");
  if (!output.empty()) check_can_write(output);
  const std::string profile = path_in_plan(options, "profile");
  const InterruptGuard guard(OnInterrupt::ends_by_itself);
  const ClusterAnswer answer =
      find_cluster_plans(question, [&] { return guard.token().stop_requested(); });
  if (answer.ranked.empty()) refuse_all(question, answer);
  if (!output.empty()) {
    const bool of_time = question.objective == Objective::throughput;
    Plan best = plan_for_file(answer.ranked.front(), of_time ? answer.bound : 0.0);
    best.profile = profile;
    write_plan(output, best);
  }
  if (options.has("json")) {
    print_result("plan", cluster_config(options, question), cluster_assumptions(question),
                 as_json(options, question, answer));
    return 0;
  }
  for (const std::string& line : answer_in_words(question, answer)) fmt::print("{}\n", line);
  fmt::print("To simulate it: {}\n\n", simulate_command(options, answer.ranked.front()));
  fmt::print("{}", schedules_table(answer, question.objective));
  fmt::print(
      "\nT x D x W: devices that share each layer, stages in a row, pipelines side by side. Batch: "
      "samples of a\nmicrobatch x microbatches of a pipeline. TFLOPs: a second and device. Memory: "
      "of the fullest device. US$: of a step.\n{}; {} (a layout with a schedule) looked at, {} "
      "simulated.\n",
      counted(answer.frames, "layout"), counted(answer.shapes, "shape"),
      counted(answer.simulated, "program"));
  return 0;
}

}  // namespace tandem::tools
