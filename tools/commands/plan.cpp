// tandem plan: searches schedule, stages and microbatch size for a model and its profile; explains
// its choice.

#include <algorithm>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/read.h"
#include "core/import/models.h"
#include "core/lower/lower.h"
#include "core/schedule/user_schedule.h"
#include "core/text/count_text.h"
#include "core/text/output_place.h"
#include "executor/checkpoint/kept_tensors.h"
#include "planner/search/explain.h"
#include "planner/search/search.h"
#include "planner/search/stage_memory.h"
#include "planner/study/schedule_file.h"
#include "simulator/cost/fitted_slices.h"
#include "tools/cli/json_output.h"
#include "tools/cli/memory_limit.h"
#include "tools/cli/options.h"
#include "tools/cli/split.h"
#include "tools/commands/command.h"
#include "tools/commands/plan_graph.h"
#include "tools/commands/plan_on_cluster.h"
#include "tools/commands/plan_output.h"
#include "tools/options/given_options.h"
#include "tools/options/scenario_options.h"
#include "tools/print/near_fits.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kLargestGlobalBatch = 1'000'000'000;

/// What `plan` shares with scenarios.
GivenOptions given_of(const Options& options) {
  return given_options(options, {"clip", "delay-correction", "memory", "optimizer", "reserve",
                                 "semantics", "storage"});
}

/// Reads and checks the user schedule, which says how many devices there are.
void take_user_schedule(const Options& options, PlanRequest& request) {
  refuse_given(options, {"schedule", "devices"}, "--{} is not taken: the schedule file sets it");
  request.schedule_file = options.text("schedule-file");
  Schedule own = read_schedule(request.schedule_file);
  const std::int64_t devices = std::int64_t{own.placement.devices} * own.width;
  if (devices > kMostPlannedDevices)
    throw InputError(fmt::format("{}: {} devices; the planner takes 1 to {}", request.schedule_file,
                                 devices, kMostPlannedDevices));
  request.devices = static_cast<std::uint16_t>(devices);
  request.user_schedule = std::make_shared<const Schedule>(std::move(own));
}

/// With all that a plan of it may ask for, the schedule is right and can be trained.
void check_user_schedule(const PlanRequest& request) {
  const Schedule& own = *request.user_schedule;
  ScheduleRequest asked;
  asked.global_norm = request.global_norm;
  asked.tied_embeddings = has_tied_ends(request.model) && own.placement.stages() > 1;
  for (const Recompute recompute : {Recompute::none, Recompute::stage}) {
    if (recompute == Recompute::none && recomputes(own)) continue;
    asked.recompute = recompute;
    const Schedule whole = completed(own, asked);
    check_right(whole, lower(whole));
    check_trained(whole);
  }
}

PlanRequest request_of(const Options& options) {
  const bool own = options.has("schedule-file");
  for (const char* name : {"profile", "devices", "global-batch"}) {
    if (options.has(name) || (own && std::string_view(name) == "devices")) continue;
    refuse(options, "--{} is missing", name);
  }
  for (const char* name :
       {"objective", "gap", "explain", "report", "beside", "tensor", "depth", "width", "chunks"}) {
    if (options.has(name)) refuse(options, "--{} is for a plan on a cluster", name);
  }
  PlanRequest request;
  if (own) {
    take_user_schedule(options, request);
  } else {
    request.devices =
        static_cast<std::uint16_t>(options.integer("devices", 1, kMostPlannedDevices, 1));
  }
  request.global_batch =
      static_cast<std::int32_t>(options.integer("global-batch", 1, kLargestGlobalBatch, 1));
  if (options.has("reserve") && !options.has("memory"))
    refuse(options, "--reserve is a part of --memory: give --memory too");
  const GivenOptions given = given_of(options);
  if (given.memory) request.memory = given.reserve.value_or(Reserve{}).usable(*given.memory);
  const std::string names = options.text("schedule");
  for (const std::string_view name : split(names, ",")) {
    if (!name.empty()) request.schedules.emplace_back(name);
  }
  if (options.has("schedule") && request.schedules.empty())
    refuse(options, "--schedule: expected names such as 2bw,1f1b, found none");
  request.global_norm = given.global_norm().value_or(false);
  request.vanilla_only = given.vanilla_only;
  for (const std::string& name : request.schedules) find_schedule(name);
  request.profile = read_profile(options.text("profile"));
  request.model = options.has("model") ? read_model(options.text("model")) : request.profile.model;
  check_trainable(request.model);
  request.optimizer = {given.optimizer.value_or(request.profile.optimizer.kind),
                       given.delay_correction.value_or(DelayCorrection::none)};
  request.storage = given.storage;
  if (own) check_user_schedule(request);
  return request;
}

/// With what `check` says of the nearest plan: what fits near to it, outside of what was searched.
[[noreturn]] void refuse_all(const PlanRequest& request, const PlanResult& result) {
  std::string text = explain_infeasible(request, result);
  for (const RejectedGroup& of : group(result.rejected)) {
    if (of.cause != RejectCause::memory) continue;
    text += offers_text(near_fits(*of.nearest.plan, *request.memory, request.storage), kOfPlans);
  }
  throw InfeasibleError(text);
}

std::vector<std::string> plan_warnings(const PlanRequest& request, const Plan& plan) {
  std::vector<std::string> warnings;
  const Profile& profile = request.profile;
  if (request.optimizer != profile.optimizer) {
    warnings.push_back(fmt::format("the profile measured the update of {}, not of {}",
                                   describe(profile.optimizer), describe(request.optimizer)));
  }
  const int devices = plan.request.devices * plan.request.width;
  if (devices != profile.busy_devices) {
    warnings.push_back(
        fmt::format("the profile was measured with {} computing at once, and the plan uses {}: if "
                    "they share cores or memory, measure with as many",
                    counted(profile.busy_devices, "device"), devices));
  }
  const std::vector<SequencePart> parts = sequence_parts(plan.request.slices, plan.model);
  if (!std::ranges::all_of(parts, [&](SequencePart part) { return is_measured(profile, part); })) {
    warnings.push_back(
        fmt::format("slices of {} tokens were not measured: their times are fitted to those that "
                    "were (tandem profile --slices {} measures them)",
                    name(plan.request.slices), name(plan.request.slices)));
  }
  for (std::string& warning : storage_warnings(request.storage))
    warnings.push_back(std::move(warning));
  return warnings;
}

/// How many layers each stage gets: "5+4+4+5".
std::string cut_of(const Plan& plan) {
  const auto sizes = plan.stages | std::views::transform(&LayerRange::size);
  return fmt::format("{}", fmt::join(sizes, "+"));
}

/// Whether nothing but names tells them apart: on one device many schedules are the same.
bool same_plan(const Candidate& a, const Candidate& b) {
  const auto shape = [](const Candidate& of) {
    const Plan& plan = of.plan;
    return std::tie(plan.request.width, plan.request.devices, plan.microbatch_size,
                    plan.request.microbatches, plan.stages, of.weights, of.slowest, of.memory);
  };
  return a.period == b.period && shape(a) == shape(b);
}

/// The place of the first plan that is the same.
std::size_t first_like(const std::vector<Candidate>& ranked, std::size_t place) {
  std::size_t first = 0;
  while (!same_plan(ranked[first], ranked[place])) ++first;
  return first;
}

/// What all plans that are the same as this first one are called by: "1f1b = gpipe".
template <class Name>
std::string names_of(const std::vector<Candidate>& ranked, std::size_t first, Name name) {
  std::vector<std::string> names;
  for (std::size_t place = first; place < ranked.size(); ++place) {
    const std::string one(name(ranked[place].plan));
    if (first_like(ranked, place) == first && std::ranges::find(names, one) == names.end())
      names.push_back(one);
  }
  return fmt::format("{}", fmt::join(names, " = "));
}

/// "timeprest single": whose backwards stand one by one; "seq1f1b n=8": in so many slices.
std::string listed_name(const Plan& plan) {
  std::string name =
      schedule_in_table(plan.schedule) + (plan.request.single_backwards ? " single" : "");
  if (plan.request.slices.count > 1) name += fmt::format(" n={}", plan.request.slices.count);
  return name;
}

void print_ranking(const PlanResult& result) {
  const std::vector<Candidate>& ranked = result.ranked;
  fmt::print(
      "{:>4}  {:<15} {:<7} {:>5} {:>6} {:>12} {:>5} {:>9} {:>10} {:>10} {:>10} {:>6} {:>10}  {}\n",
      "rank", "schedule", "weights", "width", "stages", "microbatches", "extra", "recompute",
      "samples/s", "period", "slowest", "waits", "peak", "layers");
  std::size_t rank = 0;
  for (std::size_t place = 0; place < ranked.size(); ++place) {
    if (first_like(ranked, place) != place) continue;
    const Candidate& candidate = ranked[place];
    const Plan& plan = candidate.plan;
    fmt::print(
        "{:>4}  {:<15} {:<7} {:>5} {:>6} {:>12} {:>5} {:>9} {:>10.4g} {:>10} {:>10} {:>5.1f}% "
        "{:>10}  "
        "{}\n",
        ++rank, names_of(ranked, place, listed_name), short_name(candidate.weights),
        plan.request.width, plan.stages.size(),
        fmt::format("{} x {}", plan.microbatch_size, plan.request.microbatches),
        plan.request.extra_in_flight,
        names_of(ranked, place, [](const Plan& of) { return name(of.request.recompute); }),
        plan.predicted.samples_per_s,
        print_duration(candidate.period.cycle / candidate.period.batches),
        print_duration(candidate.slowest), 100.0 * candidate.bubble(),
        print_bytes(candidate.peak_bytes), cut_of(plan));
  }
  fmt::print(
      "Period: mean time of a batch in an endless run. Slowest: how long the busiest device "
      "computes in it;\nthe rest of the period it waits. Peak: bytes of the fullest device.\n");
  if (const std::size_t more = ranked.size() - rank; more > 0) {
    fmt::print("{} the same plan by another name (joined by =).\n",
               more == 1 ? "1 more row is" : fmt::format("{} more rows are", more));
  }
}

void print_rejections(const PlanResult& result) {
  const std::vector<RejectedGroup> groups = group(result.rejected);
  if (!groups.empty()) fmt::print("\nRejected:\n");
  for (const RejectedGroup& of : groups) {
    fmt::print("{:>6}  {}; {}: {}: {}\n", of.count, name(of.cause),
               of.cause == RejectCause::memory ? "nearest" : "first", of.nearest.what,
               of.nearest.reason);
  }
  fmt::print("\n{} of a plan, {} simulated", counted(result.shapes, "shape"),
             counted(result.simulated, "program"));
  if (result.pruned > 0) {
    fmt::print("; {} left out: their slowest device alone is slower than rank {}",
               counted(result.pruned, "shape"), result.ranked.size());
  }
  fmt::print(".\n");
}

Json as_json(const Candidate& candidate) {
  const Plan& plan = candidate.plan;
  Json devices = Json::array();
  for (const DeviceId device : ids(candidate.memory)) {
    Json row{{"device", index(device)}, {"peak_bytes", candidate.memory[device].total()}};
    row.update(classes_json(candidate.memory[device]));
    devices.push_back(std::move(row));
  }
  Json row{{"schedule", plan.schedule},
           {"semantics", name(candidate.weights)},
           {"width", plan.request.width},
           {"depth", plan.request.devices},
           {"chunks", plan.request.chunks},
           {"microbatch_size", plan.microbatch_size},
           {"microbatches", plan.request.microbatches},
           {"extra_in_flight", plan.request.extra_in_flight},
           {"recompute", name(plan.request.recompute)},
           {"stages", stages_json(plan)},
           {"period_s", plan.predicted.period_s},
           {"period_batches", candidate.period.batches},
           {"throughput_samples_per_s", plan.predicted.samples_per_s},
           {"slowest_device", index(candidate.slowest_device)},
           {"slowest_device_s", to_seconds(candidate.slowest)},
           {"bubble_of_period", candidate.bubble()},
           {"devices", std::move(devices)}};
  if (plan.request.single_backwards) row["single_backwards"] = true;
  if (plan.request.slices.count > 1) row["slices"] = name(plan.request.slices);
  return row;
}

Json as_json(const RejectedGroup& of) {
  Json row{{"cause", name(of.cause)},
           {"count", of.count},
           {"nearest", of.nearest.what},
           {"reason", of.nearest.reason}};
  if (of.nearest.miss) {
    row["needed_bytes"] = of.nearest.miss->needed;
    row["excess_bytes"] = of.nearest.miss->excess;
    row["device"] = index(of.nearest.miss->device);
    row["largest_class"] = of.nearest.miss->largest;
  }
  return row;
}

/// Of the copy that checkpoints of a training by this plan are written from, beside its memory.
double checkpoint_bytes(const Plan& plan) {
  const Program program = lower(make_schedule(plan));
  return copied_bytes(plan.model, kept_tensors(program, count_slots(program), plan.model,
                                               plan.stages, plan.optimizer));
}

Json as_json(const PlanRequest& request, const PlanResult& result) {
  Json ranked = Json::array();
  for (std::size_t place = 0; place < result.ranked.size(); ++place) {
    Json row = as_json(result.ranked[place]);
    const std::size_t first = first_like(result.ranked, place);
    row["same_plan_as"] = first == place ? Json() : Json(first);
    ranked.push_back(std::move(row));
  }
  const auto each = [](const RejectedGroup& of) { return as_json(of); };
  return {{"ranked", std::move(ranked)},
          {"one_device", result.one_device ? as_json(*result.one_device) : Json(nullptr)},
          {"checkpoint_bytes", checkpoint_bytes(result.ranked.front().plan)},
          {"explanation", explain_choice(request, result)},
          {"rejected", array_of(group(result.rejected), each)},
          {"shapes", result.shapes},
          {"simulated", result.simulated},
          {"pruned", result.pruned}};
}

Json config_of(const Options& options, const PlanRequest& request) {
  Json config{{"model", request.model.name},
              {"profile", options.text("profile")},
              {"devices", request.devices},
              {"global_batch", request.global_batch},
              {"memory_bytes", nullptr},
              {"schedules", request.schedules},
              {"semantics", request.vanilla_only ? "vanilla" : "any"},
              {"optimizer", name(request.optimizer.kind)},
              {"delay_correction", name(request.optimizer.correction)},
              {"storage", name(request.storage)},
              {"output", nullptr}};
  if (request.memory) {
    const GivenOptions given = given_of(options);
    config["memory_bytes"] = *given.memory;
    config["reserve"] = reserve_json(given.reserve.value_or(Reserve{}));
  }
  if (options.has("output")) config["output"] = options.text("output");
  return config;
}

}  // namespace

Options options_of_plan() {
  Options options(
      "plan", "--profile FILE --devices P --global-batch N | --model M --cluster C [options]",
      "Tries every schedule, depth, microbatch size and recomputation by a profile, or on a "
      "cluster "
      "with nothing measured, cuts the model into stages, drops what does not fit, simulates the "
      "rest, and says what is best and why.");
  options.input("model", "FILE", "the model (default: the one that the profile measured)")
      .input("profile", "FILE", "measured costs (tandem profile)")
      .value("devices", "P", "devices at most")
      .value("global-batch", "N",
             "samples of one update; on a cluster LOW..HIGH, too: the smallest that is as good as "
             "any (default there: 0.5 to 16 million tokens)")
      .value("memory", "SIZE", "capacity of each device, such as 16GiB (default: no limit)")
      .value("schedule", "NAMES",
             "try only these schedules, separated by commas (default: all that can be trained)")
      .input(
          "schedule-file", "FILE",
          "a schedule of your own, in tandem's notation or PyTorch's CSV; the model is cut for it")
      .value("optimizer", "KIND",
             "adamw|nadam|muon|momentum|sgd (default: the one that the profile measured)")
      .output("output", "FILE", "write the best plan");
  for (const char* flag : {"delay-correction", "semantics", "reserve", "storage", "clip"})
    declare(options, flag);
  add_cluster_plan_options(options);
  add_graph_plan_options(options);
  return options;
}

int run_plan(const Options& options) {
  keep_freed_memory();
  if (options.has("graph")) return run_plan_of_graph(options);
  if (options.has("cluster")) return run_plan_on_cluster(options);
  refuse_given(options, {"planner", "link-rate"}, "--{} is for a --cluster or a --graph");
  refuse_given(options, {"contention"}, "--{} is for a --model on a --cluster");
  const PlanRequest request = request_of(options);
  const std::string output = options.text("output");
  if (!output.empty()) check_can_write(output);
  const std::string profile = path_in_plan(options, "profile"),
                    schedule_file = path_in_plan(options, "schedule-file");
  const PlanResult result = find_plans(request);
  if (result.ranked.empty()) refuse_all(request, result);
  Plan best = result.ranked.front().plan;
  best.profile = profile;
  best.schedule_file = schedule_file;
  if (!output.empty()) write_plan(output, best);
  const std::vector<std::string> warnings = plan_warnings(request, best);
  if (options.has("json")) {
    print_result("plan", config_of(options, request),
                 {{"lanes", "shared"}, {"contention", "none: no two lanes share a link"}},
                 as_json(request, result), warnings);
    return 0;
  }
  print_ranking(result);
  fmt::print("\n");
  for (const std::string& line : explain_choice(request, result)) fmt::print("{}\n", line);
  fmt::print("Beside its peak, checkpoints of `train` are written from a copy of {}.\n",
             print_bytes(static_cast<Bytes>(checkpoint_bytes(result.ranked.front().plan))));
  print_rejections(result);
  if (!output.empty()) fmt::print("Wrote {}.\n", output);
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  return 0;
}

}  // namespace tandem::tools
