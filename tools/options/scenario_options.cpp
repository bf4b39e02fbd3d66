#include "tools/options/scenario_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/files/constants_files.h"
#include "core/files/read.h"
#include "planner/study/prepared_plan.h"
#include "planner/study/schedule_file.h"
#include "tools/cli/file_cache.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/split.h"
#include "tools/options/cluster_options.h"
#include "tools/options/cost_options.h"
#include "tools/options/perturbation_options.h"
#include "tools/options/schedule_options.h"
#include "tools/options/training_options.h"

namespace tandem::tools {

namespace {

constexpr double kMostSlowdown = 1000.0;
constexpr std::int64_t kMostSamples = 1'000'000, kMostBatches = 1'000'000'000'000;
constexpr std::size_t kRowsOfAnyRun = 7;  // the others are of devices and links

Reserve reserve_of(const OptionValue& value) {
  const std::string& text = value.text();
  if (text == "0") return {};
  if (const std::optional<double> share = parse_percent(text); share && *share < 1.0)
    return {.share = *share, .bytes = 0};
  const std::optional<Bytes> bytes = parse_bytes(text);
  if (!bytes) value.reject("a share below 100%, such as 6%, or a size, such as 2GiB");
  return {.share = 0.0, .bytes = *bytes};
}

/// Refuses what `subject` says already.
void refuse_said(const GivenOptions& given, const std::string& subject,
                 const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (given.has(flag) && !given.is_of_scenarios(flag))
      refuse(given, "--{} is not taken: {} sets it", flag, subject);
  }
}

/// All that a plan says of its schedule; not --clip and others that change it.
std::vector<std::string> flags_of_plans() {
  std::vector<std::string> flags{"schedule", "schedule-file"};
  for (std::string& flag : schedule_flags(/*beside_plans=*/true)) flags.push_back(std::move(flag));
  return flags;
}

PlainRequest of_schedule_file(const GivenOptions& given) {
  std::vector<std::string> said{"schedule", "clip"};
  for (std::string& flag : schedule_flags()) said.push_back(std::move(flag));
  refuse_said(given, "the schedule file", said);
  PlainRequest plain;
  plain.schedule =
      std::make_shared<const Schedule>(read_cached<read_schedule>(given.schedule_file));
  plain.request = {.devices = plain.schedule->placement.devices,
                   .microbatches = plain.schedule->whole_microbatches(),
                   .width = plain.schedule->width};
  return plain;
}

PlainRequest plain_request(const GivenOptions& given, const ScheduleTraits* traits,
                           OtherOptions others) {
  if (given.has("profile"))
    refuse(given, "--profile is for a plan or a --model, which say what the layers are");
  if (given.has("link-rate")) {
    refuse(given,
           "--link-rate is for a plan, which says how many bytes are sent; with plain costs give "
           "--transfer");
  }
  PlainRequest plain;
  if (given.has("schedule-file")) {
    plain = of_schedule_file(given);
  } else {
    plain.traits = traits;
    plain.request = schedule_request(given, *traits, others);
  }
  plain.costs = plain_costs_of(given);
  plain.microbatch_size = static_cast<std::int32_t>(given.microbatch_size);
  return plain;
}

/// But the profile.
PlanFileRequest plan_request(const GivenOptions& given, std::shared_ptr<const Plan> plan) {
  return {.path = given.plan,
          .plan = std::move(plan),
          .link_rate = given.link_rate,
          .global_norm = given.global_norm(),
          .post_validation = given.post_validation(),
          .storage = given.storage};
}

/// --cluster beside a plan: what the plan says of itself has no place there, nor prices of what its
/// profile measured.
PlanOnCluster plan_on_cluster(const GivenOptions& given) {
  refuse_said(given, "the plan",
              {"model", "sequence", "depth", "tensor", "cut", "stages", "global-batch", "optimizer",
               "delay-correction", "zero", "sequence-parallel", "dtype", "attention", "fits-by"});
  refuse_given(given, {"product-fraction", "memory-fraction", "calibration"},
               "--{} is not taken: the plan's profile has the measured times of layers");
  refuse_given(given, {"link-rate"}, "--{} is not taken: --cluster has the links");
  PlanOnCluster on{.cluster = cluster_of(given),
                   .order = given.device_order};
  on.assumptions.link_fraction = given.link_fraction;
  if (given.has("collectives")) on.assumptions.collectives = read_collectives(given.collectives);
  return on;
}

PlanFileRequest priced_plan_request(const GivenOptions& given, std::shared_ptr<const Plan> plan) {
  PlanFileRequest request = plan_request(given, std::move(plan));
  const std::string profile = profile_path_of(given.plan, *request.plan, given.profile);
  request.profile = std::make_shared<const Profile>(read_cached<read_profile>(profile));
  if (given.has("cluster")) request.on = plan_on_cluster(given);
  return request;
}

/// A plan with its prices: those of the cluster that it was made for, or of its profile.
void set_priced_plan(const GivenOptions& given, std::shared_ptr<const Plan> plan,
                     ScenarioRequest& request) {
  std::vector<std::string> said = flags_of_plans();
  for (const char* flag :
       {"costs", "costs-per", "microbatch-size", "activation-bytes", "weight-gradient-bytes"})
    said.emplace_back(flag);
  refuse_said(given, "the plan", said);
  refuse_given(given, cost_flags(), "a plan has its costs: --{} is not taken");
  if (plan->cluster)
    request.source = cluster_request(given, *plan);
  else
    request.source = priced_plan_request(given, std::move(plan));
}

/// What goes together, whatever the source.
void check_sources(const GivenOptions& given, bool on_cluster) {
  if (given.blocking_transfers && given.lanes == TransferLanes::ideal)
    refuse(given, "--lanes ideal and --transfers blocking exclude each other");
  if (given.has("contention") && !on_cluster)
    refuse(given, "--contention is for a --model on a --cluster");
  if (given.has("contention") && given.has("degraded-link")) {
    refuse(given,
           "--degraded-link and --contention exclude each other: with --contention the cluster's "
           "file sets the rates of links");
  }
  if (given.has("compute-slowdown") && !given.has("contention")) {
    refuse(given,
           "--compute-slowdown needs --contention: only --contention follows which ops overlap");
  }
  if (given.has("storage") && given.plan.empty())
    refuse(given, "--storage is for a PLAN: a --model on a --cluster has its --dtype");
  if (given.has("model") && !given.plan.empty())
    refuse(given, "give a plan, or a --model on a --cluster");
}

/// --memory, the same for all, and what of it --reserve keeps.
void set_memory(const GivenOptions& given, ScenarioRequest& request) {
  request.memory = given.memory;
  if (request.cluster() != nullptr) return;
  if (!request.memory && given.reserve)
    refuse(given, "--reserve is a part of --memory: give --memory too");
  if (request.memory) request.reserve = given.reserve.value_or(Reserve{});
}

/// All but the source.
void set_run(const GivenOptions& given, ScenarioRequest& request) {
  request.lanes = given.lanes;
  const ClusterRequest* const cluster = request.cluster();
  request.blocking_transfers =
      given.blocking_transfers || (cluster != nullptr && cluster->blocking_transfers);
  request.contention = given.has("contention");
  request.compute_slowdown = given.compute_slowdown;
  for (const auto& [kind, perturbations] : given.perturbations)
    request.perturbations.insert(request.perturbations.end(), perturbations.begin(),
                                 perturbations.end());
  request.vanilla_only = given.vanilla_only;
  set_memory(given, request);
}

/// Of one schedule; null: of a plan or a user's.
ScenarioRequest request_of(const GivenOptions& given, const ScheduleTraits* traits,
                           OtherOptions others) {
  const bool names_cluster = names_a_cluster(given);
  const std::shared_ptr<const Plan> plan =
      given.plan.empty() ? nullptr
                         : std::make_shared<const Plan>(read_cached<read_plan>(given.plan));
  const bool on_cluster = names_cluster || (plan && plan->cluster);
  check_sources(given, on_cluster);
  ScenarioRequest request;
  if (plan) {
    set_priced_plan(given, plan, request);
  } else if (on_cluster) {
    if (traits == nullptr) refuse(given, "--schedule is missing");
    request.source = cluster_request(given, *traits, others);
  } else if (traits == nullptr && !given.has("schedule-file")) {
    refuse(given, "give a plan, or --schedule NAME with costs");
  } else {
    request.source = plain_request(given, traits, others);
  }
  set_run(given, request);
  return request;
}

/// Names of --schedule, as the registry has them.
std::vector<const ScheduleTraits*> schedules_of(const GivenOptions& given) {
  std::vector<const ScheduleTraits*> all;
  for (const std::string_view name : split(given.schedule, ",")) {
    const ScheduleTraits& traits = find_schedule(name);
    if (std::ranges::find(all, &traits) != all.end())
      refuse(given, "--schedule names {} twice", traits.name);
    all.push_back(&traits);
  }
  return all;
}

/// Every option of some schedules only must be one of a schedule named here.
void check_taken(const GivenOptions& given, const std::vector<const ScheduleTraits*>& named) {
  for (const std::string& flag : flags_of_some_schedules()) {
    if (!given.has(flag)) continue;
    const bool taken = std::ranges::any_of(
        named, [&](const ScheduleTraits* traits) { return takes(*traits, flag); });
    if (taken) continue;
    const auto names = named | std::views::transform(&ScheduleTraits::name);
    throw UsageError(
        fmt::format("none of the schedules {} has an option --{}", fmt::join(names, ", "), flag));
  }
}

}  // namespace

std::span<const ScenarioOption> scenario_rows() {
  using Given = GivenOptions;
  static const std::array<ScenarioOption, 3> kRows{
      {text_option("schedule", "NAME",
                   "name of a schedule (tandem schedule --list), or several, A,B,C, to compare",
                   &Given::schedule),
       text_option("schedule-file", "FILE",
                   "a schedule in tandem's notation or PyTorch's CSV, instead of a name",
                   &Given::schedule_file, Options::Use::input),
       {"semantics", "KIND",
        "any|vanilla: vanilla leaves out schedules whose gradients are not those of the newest "
        "weights, such as 2bw, pipedream and paci (default any)",
        [](const OptionValue& value) {
          return setting(&Given::vanilla_only, value.choice({"any", "vanilla"}) == "vanilla");
        }}}};
  return kRows;
}

std::span<const ScenarioOption> run_rows() {
  using Given = GivenOptions;
  using Value = const OptionValue&;
  static const std::array<ScenarioOption, 9> kRows{
      {{"link-rate", "RATE", "for a plan: rate of the links between devices, such as 1Gb/s",
        [](Value value) { return setting(&Given::link_rate, value.rate()); }},
       {"lanes", "shared|ideal",
        "shared: a transfer occupies its link (default); ideal: it only delays",
        [](Value value) {
          const bool ideal = value.choice({"shared", "ideal"}) == "ideal";
          return setting(&Given::lanes, ideal ? TransferLanes::ideal : TransferLanes::shared);
        }},
       integer_option("microbatch-size", "B", "samples of a microbatch (default 1)",
                      &Given::microbatch_size, kMostSamples),
       integer_option("batches", "N", "length of the run (default 1)", &Given::batches,
                      kMostBatches),
       {"memory", "SIZE", "capacity of each device, such as 16GiB",
        [](Value value) { return setting(&Given::memory, value.bytes()); }},
       {"reserve", "AMOUNT",
        "a share or a size of each device's memory to leave free, such as 8% or 2GiB (default: 6% "
        "on a cluster, for driver, libraries and the allocator's gaps; else 0)",
        [](Value value) { return setting(&Given::reserve, reserve_of(value)); }},
       {"storage", "TYPE",
        fmt::format("f32|bf16: how activations, and the weights that products read, are stored "
                    "(default f32); trained weights are f32; bf16 is for --backend {}",
                    backend_offering(Storage::bf16).name),
        [](Value value) { return setting(&Given::storage, storage_of(value)); }},
       {"contention", "",
        "on a cluster: transfers and all-reduce share links by max-min fair rates",
        [](Value) { return Setting([](Given&) {}); }},
       {"compute-slowdown", "F",
        "with --contention: a device computes F times as long while it sends, receives or sums "
        "(default 1)",
        [](Value value) {
          return setting(&Given::compute_slowdown, value.number(1.0, kMostSlowdown));
        }}}};
  return kRows;
}

void add_scenario_options(Options& options) {
  options.words("PLAN", 0, 1).group("Schedule");
  declare(options, scenario_rows());
  add_schedule_options(options);
  add_cost_options(options);
  options.group("Run");
  declare(options, run_rows().first(kRowsOfAnyRun));
  add_cluster_options(options);
  options.group("Slow devices and links");
  declare(options, perturbation_rows());
  declare(options, run_rows().subspan(kRowsOfAnyRun));
}

ScenarioRequest scenario_request(const GivenOptions& given) {
  const bool named = given.plan.empty() && given.has("schedule") &&
                     (names_a_cluster(given) || !given.has("schedule-file"));
  return request_of(given, named ? &find_schedule(given.schedule) : nullptr, OtherOptions::refused);
}

bool names_several_schedules(const Options& options) {
  return options.text("schedule").find(',') != std::string::npos;
}

std::vector<ScenarioRequest> scenario_requests(const GivenOptions& given) {
  const std::vector<const ScheduleTraits*> named = schedules_of(given);
  check_taken(given, named);
  std::vector<ScenarioRequest> requests;
  for (const ScheduleTraits* traits : named) {
    requests.push_back(request_of(given, traits, OtherOptions::passed_over));
    auto* plain = std::get_if<PlainRequest>(&requests.back().source);
    if (plain != nullptr && !given.has("costs-per")) plain->costs.times.of_device = true;
  }
  return requests;
}

ScenarioRequest check_request(const GivenOptions& given) {
  ScenarioRequest request;
  if (names_a_cluster(given)) {
    if (!given.has("schedule")) refuse(given, "--schedule is missing");
    request.source = cluster_request(given, find_schedule(given.schedule));
  } else {
    std::vector<std::string> said = flags_of_plans();
    std::erase(said, "schedule-file");
    said.emplace_back("microbatch-size");
    refuse_said(given, "the plan", said);
    auto plan = std::make_shared<const Plan>(read_plan(given.plan));
    if (plan->cluster)
      request.source = cluster_request(given, *plan);
    else
      request.source = plan_request(given, std::move(plan));
  }
  set_memory(given, request);
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
