#include "tools/options/scenario_options.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/read.h"
#include "planner/study/prepared_plan.h"
#include "planner/study/schedule_file.h"
#include "tools/cli/file_cache.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/split.h"
#include "tools/options/backend_options.h"
#include "tools/options/cluster_options.h"
#include "tools/options/cost_options.h"
#include "tools/options/perturbation_options.h"
#include "tools/options/reserve_option.h"
#include "tools/options/schedule_options.h"

namespace tandem::tools {

namespace {

constexpr double kMostSlowdown = 1000.0;

/// Refuses what `subject` says already.
void refuse_said(const Options& options, const std::string& subject,
                 const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (options.has(flag) && !is_of_scenarios(options, flag))
      refuse(options, fmt::format("--{} is not taken: {} sets it", flag, subject));
  }
}

/// All that a plan says of its schedule; not --clip and others that change it.
std::vector<std::string> flags_of_plans() {
  std::vector<std::string> flags{"schedule", "schedule-file"};
  for (std::string& flag : schedule_flags(/*beside_plans=*/true)) flags.push_back(std::move(flag));
  return flags;
}

PlainRequest of_schedule_file(const Options& options) {
  std::vector<std::string> said{"schedule", "clip"};
  for (std::string& flag : schedule_flags()) said.push_back(std::move(flag));
  refuse_said(options, "the schedule file", said);
  PlainRequest plain;
  plain.schedule =
      std::make_shared<const Schedule>(read_cached<read_schedule>(options.text("schedule-file")));
  plain.request = {.devices = plain.schedule->placement.devices,
                   .microbatches = plain.schedule->microbatches,
                   .width = plain.schedule->width};
  return plain;
}

PlainRequest plain_request(const Options& options, const ScheduleTraits* traits,
                           OtherOptions others) {
  if (options.has("profile"))
    refuse(options, "--profile is for a plan or a --model, which say what the layers are");
  if (options.has("link-rate")) {
    refuse(options,
           "--link-rate is for a plan, which says how many bytes are sent; with plain costs give "
           "--transfer");
  }
  PlainRequest plain;
  if (options.has("schedule-file")) {
    plain = of_schedule_file(options);
  } else {
    plain.traits = traits;
    plain.request = schedule_request(options, *traits, others);
  }
  plain.costs = plain_costs_of(options);
  plain.microbatch_size =
      static_cast<std::int32_t>(options.integer("microbatch-size", 1, 1'000'000, 1));
  return plain;
}

PlanFileRequest plan_request(const Options& options) {
  std::vector<std::string> said = flags_of_plans();
  for (const char* flag :
       {"costs", "costs-per", "microbatch-size", "activation-bytes", "weight-gradient-bytes"})
    said.emplace_back(flag);
  refuse_said(options, "the plan", said);
  refuse_given(options, cost_flags(), "a plan has measured costs: --{} is not taken");
  const std::string& path = options.words()[0];
  const auto plan = std::make_shared<const Plan>(read_cached<read_plan>(path));
  const std::string profile = profile_path_of(path, *plan, options.text("profile"));
  return {.path = path,
          .plan = plan,
          .profile = std::make_shared<const Profile>(read_cached<read_profile>(profile)),
          .link_rate = options.rate("link-rate"),
          .global_norm = global_norm(options),
          .post_validation = has_post_validation(options),
          .storage = storage_of(options)};
}

/// What goes together, whatever the source.
void check_sources(const Options& options, bool on_cluster) {
  const bool ideal = options.text("lanes") == "ideal";
  if (blocks_transfers(options) && ideal)
    refuse(options, "--lanes ideal and --transfers blocking exclude each other");
  if (options.has("contention") && !on_cluster)
    refuse(options, "--contention is for a --model on a --cluster");
  if (options.has("contention") && options.has("degraded-link")) {
    refuse(options,
           "--degraded-link and --contention exclude each other: with --contention the cluster's "
           "file sets the rates of links");
  }
  if (options.has("compute-slowdown") && !options.has("contention")) {
    refuse(options,
           "--compute-slowdown needs --contention: only --contention follows which ops overlap");
  }
  if (options.has("storage") && options.words().empty())
    refuse(options, "--storage is for a PLAN: a --model on a --cluster has its --dtype");
  if (on_cluster && !options.words().empty())
    refuse(options, "give a plan, or a --model on a --cluster");
}

/// --memory, the same for all, and what of it --reserve keeps.
void set_memory(const Options& options, ScenarioRequest& request) {
  request.memory = options.bytes("memory");
  if (request.cluster() != nullptr) return;
  if (!request.memory && options.has("reserve"))
    refuse(options, "--reserve is a part of --memory: give --memory too");
  if (request.memory) request.reserve = reserve_of(options);
}

/// All but the source.
void set_run(const Options& options, ScenarioRequest& request) {
  if (options.choice("lanes", {"shared", "ideal"}) == "ideal") request.lanes = TransferLanes::ideal;
  request.blocking_transfers = blocks_transfers(options);
  request.contention = options.has("contention");
  request.compute_slowdown = options.number("compute-slowdown", 1.0, kMostSlowdown, 1.0);
  request.perturbations = perturbations_of(options);
  request.vanilla_only = vanilla_only(options);
  set_memory(options, request);
}

/// Of one schedule; null: of a plan or a user's.
ScenarioRequest request_of(const Options& options, const ScheduleTraits* traits,
                           OtherOptions others) {
  const bool on_cluster = names_a_cluster(options);
  check_sources(options, on_cluster);
  ScenarioRequest request;
  if (on_cluster) {
    if (traits == nullptr) refuse(options, "--schedule is missing");
    request.source = cluster_request(options, *traits, others);
  } else if (!options.words().empty()) {
    request.source = plan_request(options);
  } else if (traits == nullptr && !options.has("schedule-file")) {
    refuse(options, "give a plan, or --schedule NAME with costs");
  } else {
    request.source = plain_request(options, traits, others);
  }
  set_run(options, request);
  return request;
}

/// Names of --schedule, as the registry has them.
std::vector<const ScheduleTraits*> schedules_of(const Options& options) {
  std::vector<const ScheduleTraits*> all;
  const std::string text = options.text("schedule");
  for (const std::string_view name : split(text, ",")) {
    const ScheduleTraits& traits = find_schedule(name);
    if (std::ranges::find(all, &traits) != all.end())
      refuse(options, fmt::format("--schedule names {} twice", traits.name));
    all.push_back(&traits);
  }
  return all;
}

/// Every option of some schedules only must be one of a schedule named here.
void check_taken(const Options& options, const std::vector<const ScheduleTraits*>& named) {
  for (const std::string& flag : flags_of_some_schedules()) {
    if (!options.has(flag)) continue;
    const bool taken = std::ranges::any_of(
        named, [&](const ScheduleTraits* traits) { return takes(*traits, flag); });
    if (taken) continue;
    std::vector<std::string_view> names;
    for (const ScheduleTraits* traits : named) names.push_back(traits->name);
    throw UsageError(
        fmt::format("none of the schedules {} has an option --{}", fmt::join(names, ", "), flag));
  }
}

}  // namespace

void add_semantics_option(Options& options) {
  options.value("semantics", "KIND",
                "any|vanilla: vanilla leaves out delayed and stashed weights, such as those of 2bw "
                "and pipedream (default any)");
}

bool vanilla_only(const Options& options) {
  return options.choice("semantics", {"any", "vanilla"}) == "vanilla";
}

void add_scenario_options(Options& options) {
  options.words("PLAN", 0, 1).group("Schedule");
  options
      .value("schedule", "NAME",
             "name of a schedule (tandem schedule --list), or several, A,B,C, to compare")
      .input("schedule-file", "FILE",
             "a schedule in tandem's notation or PyTorch's CSV, instead of a name");
  add_semantics_option(options);
  add_schedule_options(options);
  add_cost_options(options);
  options.group("Run")
      .value("link-rate", "RATE", "for a plan: rate of the links between devices, such as 1Gb/s")
      .value("lanes", "shared|ideal",
             "shared: a transfer occupies its link (default); ideal: it only delays")
      .value("microbatch-size", "B", "samples of a microbatch (default 1)")
      .value("batches", "N", "length of the run (default 1)")
      .value("memory", "SIZE", "capacity of each device, such as 16GiB");
  add_reserve_option(options);
  add_storage_option(options);
  add_cluster_options(options);
  add_perturbation_options(options);
  options.flag("contention",
               "on a cluster: transfers and all-reduce share links by max-min fair rates");
  options.value("compute-slowdown", "F",
                "with --contention: a device computes F times as long while it sends, receives or "
                "sums (default 1)");
}

std::int64_t batches_of(const Options& options, std::int64_t most) {
  return options.integer("batches", 1, most, 1);
}

ScenarioRequest scenario_request(const Options& options) {
  const bool named = options.words().empty() && options.has("schedule") &&
                     (names_a_cluster(options) || !options.has("schedule-file"));
  return request_of(options, named ? &find_schedule(options.text("schedule")) : nullptr,
                    OtherOptions::refused);
}

bool names_several_schedules(const Options& options) {
  return options.text("schedule").find(',') != std::string::npos;
}

std::vector<ScenarioRequest> scenario_requests(const Options& options) {
  const std::vector<const ScheduleTraits*> named = schedules_of(options);
  check_taken(options, named);
  std::vector<ScenarioRequest> requests;
  for (const ScheduleTraits* traits : named) {
    requests.push_back(request_of(options, traits, OtherOptions::passed_over));
    auto* plain = std::get_if<PlainRequest>(&requests.back().source);
    if (plain != nullptr && !options.has("costs-per")) plain->costs.times.of_device = true;
  }
  return requests;
}

ScenarioRequest check_request(const Options& options) {
  ScenarioRequest request;
  if (names_a_cluster(options)) {
    if (!options.has("schedule")) refuse(options, "--schedule is missing");
    request.source = cluster_request(options, find_schedule(options.text("schedule")));
  } else {
    std::vector<std::string> said = flags_of_plans();
    std::erase(said, "schedule-file");
    said.emplace_back("microbatch-size");
    refuse_said(options, "the plan", said);
    const std::string& path = options.words()[0];
    request.source = PlanFileRequest{.path = path,
                                     .plan = std::make_shared<const Plan>(read_plan(path)),
                                     .global_norm = global_norm(options),
                                     .post_validation = has_post_validation(options),
                                     .storage = storage_of(options)};
  }
  request.blocking_transfers = false;
  set_memory(options, request);
  return request;
}

SearchWatch search_watch(std::stop_token stop) {
  return {.stop = [stop = std::move(stop)] { return stop.stop_requested(); },
          .now = [] { return Duration(std::chrono::steady_clock::now().time_since_epoch()); }};
}

PreparedScenario prepare(const ScenarioRequest& request) {
  if (!searches(request)) return prepare_scenario(request);
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  return prepare_scenario(request, search_watch(interrupt.token()));
}

}  // namespace tandem::tools
