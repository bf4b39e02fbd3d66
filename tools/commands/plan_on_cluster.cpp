#include "tools/commands/plan_on_cluster.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/node_order.h"
#include "core/schedule/options.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "planner/cluster/batch_search.h"
#include "planner/cluster/fewer_made_again.h"
#include "planner/cluster/marginal_gains.h"
#include "planner/cluster/plan_of_cluster.h"
#include "planner/cluster/trade_offs.h"
#include "planner/search/explain.h"
#include "planner/search/stage_memory.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/commands/plan_beside.h"
#include "tools/commands/plan_output.h"
#include "tools/commands/plan_published.h"
#include "tools/options/cluster_question.h"
#include "tools/print/cluster_plan_words.h"
#include "tools/print/marginal_words.h"
#include "tools/print/near_fits.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/trade_off_page.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kShown = 10;

/// What is searched unless it is given.
constexpr std::array kSearched{"tensor",          "depth",   "width",     "chunks",
                               "microbatch-size", "zero",    "recompute", "device-order",
                               "node-order",      "schedule"};

}  // namespace

/// What a command is told to take this plan and no other. `asked`: what made the plan.
static std::string command_for(std::string_view command, const Options& options,
                               const ClusterRequest& asked, const Plan& plan) {
  const ScheduleRequest& request = plan.request;
  const AnalyticAssumptions& assumptions = asked.assumptions;
  std::string text = fmt::format("tandem {} --model {} --cluster {} --schedule {}", command,
                                 options.text("model"), options.text("cluster"), plan.schedule);
  const auto add = [&text](std::string_view flag, const auto& value) {
    text += fmt::format(" --{} {}", flag, value);
  };
  if (assumptions.tensor > 1) add("tensor", assumptions.tensor);
  if (assumptions.sequence_parallel) text += " --sequence-parallel";
  if (request.replicas.empty()) add("depth", request.devices);
  add("width", request.width);
  add("microbatch-size", plan.microbatch_size);
  add("global-batch", *asked.global_batch);
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  for (const ScheduleOption& option : schedule_options()) {
    if (option.flag.empty() || option.flag == "width" || !takes(traits, option)) continue;
    if (!is_unset(option, asked.plan.request))
      add(option.flag, option_text(option, asked.plan.request));
  }
  if (assumptions.sharded_optimizer) add("zero", 1);
  if (asked.cut == StageCut::even) text += " --cut even";
  std::string stages;
  for (const LayerRange stage : plan.stages)
    stages += fmt::format("{}{}-{}", stages.empty() ? "" : ",", stage.first, stage.last);
  if (asked.cut == StageCut::given) add("stages", stages);
  if (asked.order != DeviceOrder::replicas_first) add("device-order", name(asked.order));
  if (const auto nodes = unequal_nodes(asked.cluster->spec()); !nodes.empty())
    add("node-order", fmt::format("{}", fmt::join(nodes, ",")));
  const bool own_cut = asked.cut == StageCut::even || asked.cut == StageCut::given;
  for (const std::string_view flag : kGivenForAllPlans) {
    if (options.has(std::string(flag)) && (flag != "cut" || !own_cut))
      add(flag, options.text(std::string(flag)));
  }
  return text;
}

static std::string simulate_command(const Options& options, const ClusterCandidate& of) {
  return command_for("simulate", options, of.request, of.plan) +
         (of.contention ? " --contention" : "");
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
          {"node_order", unequal_nodes(of.request.cluster->spec())},
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
          {"contended", answer.contended},
          {"interrupted", answer.interrupted}};
}

Json marginal_json(const Options& options, const ClusterAnswer& answer,
                   const std::vector<MarginalGain>& gains) {
  const auto parts = [](const ClusterCandidate& of) -> Json {
    const StepParts of_step = parts_of_step(of);
    return {{"computes_s", of_step.computes_s}, {"waits_s", of_step.waits_s}};
  };
  const auto gain = [&](const MarginalGain& of) -> Json {
    Json best = candidate_json(options, of.best);
    best["command"] = nullptr;  // no cluster of the catalogue is so
    return {{"of", name(of.supply)},
            {"times", of.times},
            {"best", std::move(best)},
            {"value", of.best.value},
            {"change", of.best.value / answer.ranked.front().value - 1.0},
            {"same_shape", same_shape(of.best, answer.ranked.front())},
            {"proved", of.proved}};
  };
  return {{"best", parts(answer.ranked.front())},
          {"next", answer.ranked.size() > 1 ? parts(answer.ranked[1]) : Json()},
          {"gains", array_of(gains, gain)}};
}

Json as_json(const Options& options, const BatchOutcome& of) {
  const bool fits = !of.answer.ranked.empty();
  return {{"global_batch", of.global_batch},
          {"best", fits ? candidate_json(options, of.answer.ranked.front()) : Json()},
          {"bound", of.answer.bound}};
}

}  // namespace

Json cluster_config(const Options& options, const ClusterQuestion& question) {
  Json given = Json::object();
  for (const char* flag : kSearched) {
    if (options.has(flag)) given[flag] = options.text(flag);
  }
  for (const char* flag : kGivenForAllPlans) {
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
          {"contention", question.contention},
          {"given", std::move(given)},
          {"output", options.has("output") ? Json(options.text("output")) : Json()}};
}

Json cluster_assumptions(const ClusterQuestion& question) {
  const AnalyticAssumptions& assumptions = question.base.assumptions;
  return {{"dtype", name(assumptions.format)},
          {"attention", assumptions.attention == AttentionKernel::flash ? "flash" : "plain"},
          {"fits_by", name(assumptions.fits_by)},
          {"contention", contention_text(question.contention)},
          {"reserve", reserve_json(assumptions.reserve)}};
}

namespace {

/// What `check` says of the nearest plan, and how it is asked.
std::string nearest_text(const Options& options, const ClusterRequest& nearest) {
  const ClusterSetup setup = set_up_on_cluster(nearest);
  const ClusterPlan& made = setup.made;
  const std::optional<MemoryMiss> miss = memory_miss(made.memory, made.usable);
  return fmt::format(
      "; the nearest, {}, {}{}", command_for("check", options, nearest, made.plan),
      miss_text(*miss, made.capacity[miss->device], setup.assumptions().reserve, made.figures.by),
      offers_text(near_fits(setup), kOfOptions));
}

/// Why no layout is as it is asked for.
std::string no_layout_text(const ClusterQuestion& question) {
  const std::int64_t groups = std::int64_t{question.depth.value_or(1)} * question.width.value_or(1);
  const std::int64_t devices = groups * question.tensor.value_or(1);
  if (devices > question.devices()) {
    return fmt::format("tensor {} x depth {} x width {} takes {}, of {}",
                       question.tensor.value_or(1), question.depth.value_or(1),
                       question.width.value_or(1), counted(devices, "device"), question.devices());
  }
  if (question.sharded_optimizer.value_or(false) && question.width == 1)
    return "ZeRO-1 shares the optimizer out over the width, which is 1";
  return fmt::format(
      "no depth and width within its devices share a batch of {} out in microbatches of {}",
      question.global_batch,
      question.microbatch_size ? counted(*question.microbatch_size, "sample")
                               : fmt::format("up to {} samples", kMostMicrobatchSize));
}

[[noreturn]] void refuse_all(const Options& options, const ClusterQuestion& question,
                             const ClusterAnswer& answer) {
  std::size_t too_large = 0;
  for (const ScheduleOutcome& of : answer.schedules) too_large += of.too_large;
  std::string why = fmt::format("no plan of {} on {}", question.base.plan.model.name,
                                question.base.cluster->name());
  if (answer.interrupted) throw Interrupted("interrupted: " + why + " was found yet");
  if (too_large > 0) why += fmt::format(": {} do not fit in memory", counted(too_large, "shape"));
  if (answer.frames == 0 && !answer.schedules.empty())
    throw InfeasibleError(fmt::format("{}: {}", why, no_layout_text(question)));
  if (answer.nearest) throw InfeasibleError(why + nearest_text(options, *answer.nearest));
  for (const RejectedGroup& of : group(answer.rejected))
    why += fmt::format("\n  {}, the first: {}: {}", counted(of.count, "refusal"), of.nearest.what,
                       of.nearest.reason);
  throw InfeasibleError(why);
}

}  // namespace

void add_cluster_plan_options(Options& options) {
  options.group("On a cluster, in place of a profile");
  for (const char* flag :
       {"cluster", "gpu", "tensor", "depth", "zero", "device-order", "node-order", "cut",
        "microbatch-size", "sequence", "dtype", "attention", "transfers", "contention"})
    declare(options, flag);
  options.value("width", "W", "pipelines side by side (default: searched)")
      .value("chunks", "V",
             "stages on each device, of schedules that have several (default: searched)")
      .value("recompute", "KIND",
             fmt::format("{} (default: all but blocks:N and stage are searched)", kRecomputeNames))
      .value(
          "objective", "WHAT",
          "what the plan has the least of: throughput (its step's time, the default), memory (of "
          "the fullest device), cost (of a step, at the devices' usd_per_hour)")
      .value("gap", "SHARE",
             "end the search when no plan can be better by more than this, such as 1% (default: "
             "when none can)")
      .flag("explain",
            "also where the next plan loses, and what the best would be with 1 % more compute, "
            "memory or links, or any amount of memory: six more searches")
      .output("report", "FILE",
              "write a page (HTML) of what less memory, fewer devices and less money would do")
      .value("planner", "NAMES",
             "what published planners make of it, and how ours compares: " + published_names())
      .input("beside", "WHAT",
             "sets what you run with beside the best: a plan file, or options of simulate such as "
             "schedule=1f1b,tensor=8,depth=4,recompute=full; several are joined by \";\"");
  options.group("Assumptions on a cluster");
  for (const char* flag : {"product-fraction", "memory-fraction", "link-fraction", "collectives",
                           "calibration", "fits-by"})
    declare(options, flag);
}

namespace {

/// What `plan` found, and of the batch that it chose.
struct Found {
  ClusterQuestion question;
  std::vector<std::int64_t> asked = {};  // batches
  BatchAnswer batches = {};
  std::vector<MarginalGain> gains = {};                           // with --explain
  std::vector<ClusterCandidate> by_memory = {}, by_devices = {};  // with --report
  std::vector<SetBeside> beside = {};
  std::optional<ClusterCandidate> fewer_made_again = {};
  bool interrupted = false;

  const ClusterAnswer& answer() const { return batches.batches[batches.chosen].answer; }
  const ClusterCandidate& best() const { return answer().ranked.front(); }
};

Found found_by(const Options& options) {
  Found found{.question = cluster_question_of(options)};
  found.asked = batches_asked(options, found.question);
  if (found.asked.size() > 1 && found.question.objective == Objective::memory)
    refuse(options, "--objective memory needs one --global-batch: the smallest has the least");
  for (const char* file : {"output", "report"}) {
    if (options.has(file)) check_can_write(options.text(file));
  }
  if (options.has("beside")) {
    if (found.asked.size() > 1) refuse(options, "--beside needs one --global-batch");
    if (found.question.objective != Objective::throughput)
      refuse(options, "--beside compares times: --objective is not taken");
    found.question.global_batch = found.asked.front();
    found.beside = set_beside_of(options, found.question);
  }
  const InterruptGuard guard(OnInterrupt::ends_by_itself);
  const auto stop = [&guard] { return guard.token().stop_requested(); };
  found.batches = find_batch(found.question, found.asked, stop);
  const bool has_plan = found.batches.has_plan();
  const std::vector<BatchOutcome>& all = found.batches.batches;
  const BatchOutcome& chosen = has_plan ? all[found.batches.chosen] : all.back();
  found.question.global_batch = chosen.global_batch;
  if (!has_plan) refuse_all(options, found.question, chosen.answer);
  if (options.has("report")) {
    const ClusterCandidate& best = chosen.answer.ranked.front();
    found.by_memory = plans_by_memory(found.question, best, stop);
    found.by_devices = plans_by_devices(found.question, best, stop);
  }
  for (SetBeside& one : found.beside)
    one.changes = best_by_one_change(found.question, one.made, stop);
  if (options.has("explain")) found.gains = marginal_gains(found.question, stop);
  if (found.question.objective == Objective::throughput && !found.question.recompute)
    found.fewer_made_again = with_fewer_made_again(chosen.answer);
  found.interrupted = stop();
  return found;
}

void print_json(const Options& options, const Found& found) {
  Json config = cluster_config(options, found.question);
  Json result = as_json(options, found.question, found.answer());
  if (found.asked.size() > 1) {
    config["global_batches"] = found.asked;
    result["batches"] =
        array_of(found.batches.batches, [&](const auto& of) { return as_json(options, of); });
  }
  result["fewer_made_again"] =
      found.fewer_made_again ? candidate_json(options, *found.fewer_made_again) : Json();
  if (!found.beside.empty()) result["beside"] = beside_json(options, found.beside, found.answer());
  if (options.has("explain"))
    result["marginal"] = marginal_json(options, found.answer(), found.gains);
  print_result("plan", std::move(config), cluster_assumptions(found.question), std::move(result));
}

void print_text(const Options& options, const Found& found) {
  const ClusterAnswer& answer = found.answer();
  if (found.asked.size() > 1) fmt::print("{}\n", batches_text(found.question, found.batches));
  for (const std::string& line : answer_in_words(found.question, answer)) fmt::print("{}\n", line);
  if (found.fewer_made_again)
    fmt::print("{}\n", fewer_made_again_in_words(found.best(), *found.fewer_made_again));
  if (options.has("explain")) {
    for (const std::string& line : loss_in_words(answer)) fmt::print("{}\n", line);
    if (!found.gains.empty())
      fmt::print("\n{}\n", gains_text(found.question, found.best(), found.gains));
  }
  for (const SetBeside& one : found.beside) fmt::print("\n{}", beside_text(answer, one));
  if (!found.beside.empty()) fmt::print("\n");
  fmt::print("To simulate it: {}\n\n", simulate_command(options, found.best()));
  fmt::print("{}", schedules_table(answer, found.question.objective));
  fmt::print(
      "\nT x D x W: devices that share each layer, stages in a row, pipelines side by side. Batch: "
      "samples of a\nmicrobatch x microbatches of a pipeline. TFLOPs: a second and device. Memory: "
      "of the fullest device. US$: of a step.\n{}; {} (a layout with a schedule) looked at, {} "
      "simulated{}.\n",
      counted(answer.frames, "layout"), counted(answer.shapes, "shape"),
      counted(answer.simulated, "program"),
      found.question.contention ? fmt::format(", {} of them with contention", answer.contended)
                                : "");
}

}  // namespace

int run_plan_on_cluster(const Options& options) {
  if (options.has("planner")) return run_published_planners(options);
  const std::string profile = path_in_plan(options, "profile");
  const Found found = found_by(options);
  if (options.has("output")) {
    const bool of_time = found.question.objective == Objective::throughput;
    Plan best = plan_for_file(found.best(), of_time ? found.answer().bound : 0.0);
    best.profile = profile;
    write_plan(options.text("output"), best);
  }
  if (options.has("report")) {
    write_file(options.text("report"),
               trade_off_page(found.question, found.answer(), found.by_memory, found.by_devices));
  }
  if (options.has("json"))
    print_json(options, found);
  else
    print_text(options, found);
  if (!found.interrupted) return 0;
  fmt::print(stderr, "error: interrupted: this is the best so far\n");
  return static_cast<int>(ExitCode::interrupted);
}

}  // namespace tandem::tools
