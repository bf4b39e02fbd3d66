// tandem check: does a plan, or a model on a cluster, parse, verify and fit?

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/text/count_text.h"
#include "core/verify/verify.h"
#include "executor/checkpoint/kept_tensors.h"
#include "planner/search/candidates.h"
#include "planner/search/stage_memory.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/cluster_options.h"
#include "tools/options/scenario_options.h"
#include "tools/options/schedule_options.h"
#include "tools/options/training_options.h"
#include "tools/print/near_fits.h"
#include "tools/print/scenario_summary.h"
#include "tools/print/simulation_report.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostShownViolations = 20;

using DeviceMemory = Table<DeviceId, MemoryByClass>;
using Capacity = std::optional<Table<DeviceId, Bytes>>;

/// What is checked, wherever it comes from.
struct Subject {
  const ScenarioRequest& request;
  const PreparedScenario& prepared;
  std::string name;  // for messages: the plan's file, or the model and the cluster
  Capacity usable;   // what a plan may fill of each device

  const Program& program() const { return prepared.scenario.program; }
  const DeviceMemory& memory() const { return *prepared.scenario.memory; }
  const Reserve& reserve() const { return prepared.scenario.reserve; }
};

Subject subject_of(const ScenarioRequest& request, const PreparedScenario& prepared) {
  const Scenario& scenario = prepared.scenario;
  Subject subject{.request = request, .prepared = prepared, .name = {}, .usable = {}};
  subject.name = prepared.cluster ? fmt::format("{} on {}", prepared.plan->model.name,
                                                prepared.cluster->cluster().name())
                                  : request.plan()->path;
  if (!scenario.capacity) return subject;
  subject.usable.emplace();
  for (const Bytes capacity : *scenario.capacity)
    subject.usable->push_back(scenario.reserve.usable(capacity));
  return subject;
}

/// Throws DifferenceError when the program would not run right.
void check_program(const Subject& subject) {
  const std::vector<Violation> violations =
      verify(subject.program(), count_slots(subject.program()));
  if (violations.empty()) return;
  std::string text =
      fmt::format("{}: the program of {} is wrong: {}", subject.name,
                  subject.prepared.plan->schedule, counted(violations.size(), "violation"));
  for (std::size_t i = 0; i < std::min(violations.size(), kMostShownViolations); ++i)
    text += fmt::format("\n  {}: {}", name(violations[i].kind), violations[i].message);
  throw DifferenceError(text);
}

std::vector<std::string> check_warnings(const Subject& subject) {
  std::vector<std::string> warnings = subject.prepared.warnings;
  const std::vector<Bytes>& predicted = subject.prepared.plan->predicted.peak_bytes;
  std::vector<Bytes> totals;
  for (const MemoryByClass& of : subject.memory()) totals.push_back(of.total());
  if (!predicted.empty() && predicted != totals) {
    warnings.emplace_back(
        fmt::format("{} expects other peak memory than this check counts: it was edited, or made "
                    "for another --storage or version",
                    subject.name));
  }
  return warnings;
}

Json devices_json(const Subject& subject) {
  const DeviceMemory& memory = subject.memory();
  const Capacity &capacity = subject.prepared.scenario.capacity, &usable = subject.usable;
  Json devices = Json::array();
  for (const DeviceId device : ids(memory)) {
    Json row{{"device", index(device)}};
    row.update(classes_json(memory[device]));
    row["peak_bytes"] = memory[device].total();
    if (const auto& figures = subject.prepared.scenario.figures)
      row.update(figures_json(*figures, device));
    row["capacity_bytes"] = capacity ? Json((*capacity)[device]) : Json();
    if (usable) row["reserve_bytes"] = (*capacity)[device] - (*usable)[device];
    row["fits"] = usable ? Json(memory[device].total() <= (*usable)[device]) : Json();
    devices.push_back(std::move(row));
  }
  return devices;
}

/// What is missing where, and which plans near to this one fit.
std::string explain_misfit(const Subject& subject, const MemoryMiss& miss) {
  const Scenario& scenario = subject.prepared.scenario;
  std::optional<FitsBy> by;
  if (scenario.figures) by = scenario.figures->by;
  const std::string text =
      subject.name + ": " +
      miss_text(miss, (*scenario.capacity)[miss.device], subject.reserve(), by);
  if (subject.prepared.cluster)
    return text + offers_text(near_fits(*subject.prepared.cluster), kOfOptions);
  return text + offers_text(near_fits(*subject.prepared.plan, (*subject.usable)[DeviceId{}],
                                      subject.request.plan()->storage),
                            kOfPlans);
}

Json config_of(const Subject& subject) {
  if (subject.prepared.cluster) return cluster_config(*subject.prepared.cluster);
  const PlanFileRequest& file = *subject.request.plan();
  return {{"plan", file.path},
          {"storage", name(file.storage)},
          {"memory_bytes", or_null(subject.request.memory)},
          {"reserve", reserve_json(subject.reserve())}};
}

/// Of the host's memory, beside the devices', while the plan is trained with checkpoints; none: it
/// can't be trained here.
std::optional<double> checkpoint_bytes(const Subject& subject) {
  const Plan& plan = *subject.prepared.plan;
  if (subject.prepared.cluster || !why_untrainable(plan.model).empty()) return std::nullopt;
  return copied_bytes(plan.model, kept_tensors(subject.program(), count_slots(subject.program()),
                                               plan.model, plan.stages, plan.optimizer));
}

void print_json(const Subject& subject) {
  const DeviceMemory& memory = subject.memory();
  const DeviceId fullest = fullest_device(memory);
  Json assumptions = Json::object();
  if (subject.prepared.cluster)
    assumptions = cluster_assumptions(subject.request, *subject.prepared.cluster);
  print_result("check", config_of(subject), std::move(assumptions),
               {{"instructions", subject.program().size()},
                {"violations", 0},
                {"fullest_device", index(fullest)},
                {"largest_class", largest_class(memory[fullest]).name},
                {"checkpoint_bytes", or_null(checkpoint_bytes(subject))},
                {"devices", devices_json(subject)}},
               check_warnings(subject));
}

void print_text(const Subject& subject) {
  const std::optional<ClusterSetup>& cluster = subject.prepared.cluster;
  const DeviceMemory& memory = subject.memory();
  const DeviceId fullest = fullest_device(memory);
  const ClassBytes largest = largest_class(memory[fullest]);
  if (cluster) {
    fmt::print("{}\n", cluster_summary(*cluster));
  } else {
    fmt::print("{}: {}\n", subject.name, describe(*subject.prepared.plan));
  }
  fmt::print("verified: {} instructions a batch, right for a run of any length\n",
             subject.program().size());
  print_memory(subject.prepared.scenario);
  fmt::print("\nFullest: device {}, {}; most of it {}, {}.\n", index(fullest),
             print_bytes(memory[fullest].total()), largest.name, print_bytes(largest.bytes));
  if (const std::optional<double> bytes = checkpoint_bytes(subject)) {
    fmt::print("Beside this, checkpoints of `train` are written from a copy of {}.\n",
               print_bytes(static_cast<Bytes>(*bytes)));
  }
  if (cluster) print_assumptions(subject.request, *cluster);
  for (const std::string& warning : check_warnings(subject))
    fmt::print(stderr, "warning: {}\n", warning);
}

void check(const Subject& subject, bool json) {
  check_program(subject);
  const std::optional<MemoryMiss> miss =
      subject.usable ? memory_miss(subject.memory(), *subject.usable) : std::nullopt;
  const std::string misfit = miss ? explain_misfit(subject, *miss) : "";
  if (!json) print_text(subject);
  if (miss) throw InfeasibleError(misfit);
  if (json) print_json(subject);
}

}  // namespace

Options options_of_check() {
  Options options("check", "PLAN | --model NAME --cluster NAME --schedule NAME [options]",
                  "Parses, lowers and verifies a plan, or a model on a cluster, and counts its "
                  "memory, device by device.");
  options.words("PLAN", 0, 1)
      .group("Check")
      .value("memory", "SIZE", "capacity of each device, such as 16GiB, which the plan has to fit")
      .value("schedule", "NAME", "on a cluster: name of a schedule")
      .value("microbatch-size", "B", "on a cluster: samples of a microbatch (default 1)");
  declare(options, "reserve");
  add_cluster_options(options);
  add_schedule_options(options);
  declare(options, "storage");
  return options;
}

int run_check(const Options& options) {
  const GivenOptions given = given_options(options);
  const bool on_cluster = names_a_cluster(given);
  if (on_cluster == !options.words().empty())
    refuse(options, "give a plan, or a --model on a --cluster");
  if (!on_cluster) refuse_given(options, {"transfers"}, "--{} is for a --model on a --cluster");
  if (!on_cluster && options.has("profile"))
    refuse(options, "--profile is for a --model on a --cluster: a plan names its own profile");
  if (on_cluster && options.has("storage"))
    refuse(options, "--storage is for a PLAN: a --model on a --cluster has --dtype");
  const ScenarioRequest request = check_request(given);
  const PreparedScenario prepared = prepare(request);
  check(subject_of(request, prepared), options.has("json"));
  return 0;
}

}  // namespace tandem::tools
