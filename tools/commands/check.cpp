// tandem check: does a plan, or a model on a cluster, parse, verify and fit?

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/verify/verify.h"
#include "planner/search/candidates.h"
#include "planner/search/stage_memory.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/backend_options.h"
#include "tools/options/cluster_setup.h"
#include "tools/options/plan_setup.h"
#include "tools/options/reserve_option.h"
#include "tools/options/schedule_options.h"
#include "tools/print/near_fits.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostShownViolations = 20;

/// What a plan says by itself.
constexpr const char* kOptionsOfNames[] = {
    "schedule",  "microbatch-size", "devices",       "microbatches",    "width",
    "recompute", "chunks",          "group",         "extra-in-flight", "replicas",
    "waves",     "directions",      "vertical-sync", "activation-cap",  "seed",
    "orders",    "time-limit"};

using DeviceMemory = Table<DeviceId, MemoryByClass>;
using Capacity = std::optional<Table<DeviceId, Bytes>>;

/// What is checked, wherever it comes from.
struct Subject {
  std::string name;  // for messages: the plan's file, or the model and the cluster
  const Plan& plan;
  const Program& program;
  SlotCounts slots;
  DeviceMemory memory;
  Capacity capacity, usable;  // what devices have, and what a plan may fill of it
  Reserve reserve;
  const Options& options;
  Json config;
  Json assumptions = Json::object();
  std::vector<std::string> warnings = {};
  const ClusterSetup* cluster = nullptr;
};

DeviceId fullest_device(const DeviceMemory& memory) {
  DeviceId fullest{};
  for (const DeviceId device : ids(memory)) {
    if (memory[device].total() > memory[fullest].total()) fullest = device;
  }
  return fullest;
}

/// Throws DifferenceError when the program would not run right.
void check_program(const Subject& subject) {
  const std::vector<Violation> violations = verify(subject.program, subject.slots);
  if (violations.empty()) return;
  std::string text = fmt::format("{}: the program of {} is wrong: {} violations", subject.name,
                                 subject.plan.schedule, violations.size());
  for (std::size_t i = 0; i < std::min(violations.size(), kMostShownViolations); ++i) {
    text += fmt::format("\n  {}: {}", name(violations[i].kind), violations[i].message);
  }
  throw DifferenceError(text);
}

std::vector<std::string> warnings_of(const Plan& plan, const DeviceMemory& memory) {
  std::vector<Bytes> totals;
  for (const MemoryByClass& of : memory) totals.push_back(of.total());
  if (plan.predicted.peak_bytes.empty() || plan.predicted.peak_bytes == totals) return {};
  return {
      "the plan's peak_bytes differ from these: the plan was edited, or made for another --storage "
      "or by another version"};
}

void print_memory(const DeviceMemory& memory, const Capacity& usable) {
  fmt::print("{:>6}", "device");
  for (const ClassBytes& of : classes({})) fmt::print(" {:>11}", of.name);
  fmt::print(" {:>11}{}\n", "total", usable ? "  fits" : "");
  for (const DeviceId device : ids(memory)) {
    fmt::print("{:>6}", index(device));
    for (const ClassBytes& of : classes(memory[device]))
      fmt::print(" {:>11}", print_bytes(of.bytes));
    const Bytes total = memory[device].total();
    fmt::print(" {:>11}{}\n", print_bytes(total),
               !usable                      ? ""
               : total <= (*usable)[device] ? "  yes"
                                            : "  NO");
  }
}

Json as_json(const DeviceMemory& memory, const Capacity& capacity, const Capacity& usable) {
  Json devices = Json::array();
  for (const DeviceId device : ids(memory)) {
    Json row{{"device", index(device)}};
    for (const ClassBytes& of : classes(memory[device])) {
      row[fmt::format("{}_bytes", of.name)] = of.bytes;
    }
    row["peak_bytes"] = memory[device].total();
    row["capacity_bytes"] = capacity ? Json((*capacity)[device]) : Json(nullptr);
    if (usable) row["reserve_bytes"] = (*capacity)[device] - (*usable)[device];
    row["fits"] = usable ? Json(memory[device].total() <= (*usable)[device]) : Json(nullptr);
    devices.push_back(std::move(row));
  }
  return devices;
}

/// Near to a plan by itself, or to what was made on the cluster.
std::vector<std::string> fits_near(const Subject& subject) {
  if (subject.cluster != nullptr) return near_fits(*subject.cluster, subject.options);
  const Placement& placement = subject.program.placement();
  if (placement.stages() != placement.devices) return {};
  return near_fits(subject.plan, (*subject.usable)[DeviceId{}], storage_of(subject.options));
}

/// What is missing where, and which plans near to this one fit.
std::string explain_misfit(const Subject& subject, const MemoryMiss& miss) {
  const Bytes limit = (*subject.capacity)[miss.device];
  std::string text = fmt::format(
      "{}: does not fit in {} a device{}: device {} needs {}, {} too much (largest: {}, {})",
      subject.name, print_bytes(limit),
      subject.reserve.none() ? "" : fmt::format(", {} in reserve", describe(subject.reserve)),
      index(miss.device), print_bytes(miss.needed), print_bytes(miss.excess), miss.largest,
      print_bytes(miss.largest_bytes));
  const std::vector<std::string> nearest = fits_near(subject);
  if (nearest.empty()) return text + "; no similar plan fits";
  text += subject.cluster == nullptr ? "; these fit:" : "; these options fit instead:";
  for (const std::string& line : nearest) text += "\n  " + line;
  return text;
}

int report(const Subject& subject, bool json) {
  check_program(subject);
  const DeviceMemory& memory = subject.memory;
  const DeviceId fullest = fullest_device(memory);
  const ClassBytes largest = largest_class(memory[fullest]);
  const std::optional<MemoryMiss> miss =
      subject.usable ? memory_miss(memory, *subject.usable) : std::nullopt;
  const std::string misfit = miss ? explain_misfit(subject, *miss) : "";
  if (json) {
    if (miss) throw InfeasibleError(misfit);
    print_result("check", subject.config, subject.assumptions,
                 {{"instructions", subject.program.size()},
                  {"violations", 0},
                  {"fullest_device", index(fullest)},
                  {"largest_class", largest.name},
                  {"devices", as_json(memory, subject.capacity, subject.usable)}},
                 subject.warnings);
    return 0;
  }
  if (subject.cluster != nullptr) {
    fmt::print("{}\n", subject.cluster->summary());
  } else {
    fmt::print("{}: {}\n", subject.name, describe(subject.plan));
  }
  fmt::print("verified: {} instructions a batch, right for a run of any length\n\n",
             subject.program.size());
  print_memory(memory, subject.usable);
  if (subject.cluster != nullptr || !subject.reserve.none())
    fmt::print("{}", reserve_line(subject.reserve));
  fmt::print("\nFullest: device {}, {}; most of it {}, {}.\n", index(fullest),
             print_bytes(memory[fullest].total()), largest.name, print_bytes(largest.bytes));
  if (subject.cluster != nullptr) {
    fmt::print("\nAssumed, not measured:\n");
    for (const std::string& line : subject.cluster->assumption_lines()) fmt::print("  {}\n", line);
  }
  for (const std::string& warning : subject.warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (miss) throw InfeasibleError(misfit);
  return 0;
}

int check_plan(const Options& options) {
  for (const char* name : kOptionsOfNames) {
    if (options.has(name))
      throw UsageError(fmt::format("tandem check: --{} is not taken: the plan sets it", name));
  }
  if (options.has("profile")) {
    throw UsageError(
        "tandem check: --profile is for a --model on a --cluster: a plan names its own profile");
  }
  const std::string& path = options.words()[0];
  const std::optional<Bytes> limit = options.bytes("memory");
  const PreparedPlan prepared =
      prepare_plan(path, global_norm(options), options.has("post-validation"), storage_of(options));
  DeviceMemory memory = planned_memory(prepared);
  if (!limit && options.has("reserve"))
    throw UsageError("tandem check: --reserve is a part of --memory: give --memory too");
  const Reserve reserve = reserve_of(options);
  Capacity capacity, usable;
  if (limit) {
    capacity.emplace(memory.size(), *limit);
    usable.emplace(memory.size(), reserve.usable(*limit));
  }
  std::vector<std::string> warnings = warnings_of(prepared.plan, memory);
  return report({.name = path,
                 .plan = prepared.plan,
                 .program = prepared.program,
                 .slots = prepared.slots,
                 .memory = std::move(memory),
                 .capacity = std::move(capacity),
                 .usable = std::move(usable),
                 .reserve = reserve,
                 .options = options,
                 .config = {{"plan", path},
                            {"storage", name(prepared.storage)},
                            {"memory_bytes", limit ? Json(*limit) : Json(nullptr)},
                            {"reserve", reserve_json(reserve)}},
                 .warnings = std::move(warnings)},
                options.has("json"));
}

int check_cluster(const Options& options) {
  const ClusterSetup setup = make_cluster_setup(options);
  const ClusterPlan& made = setup.made;
  return report({.name = fmt::format("{} on {}", made.plan.model.name, setup.cluster.name()),
                 .plan = made.plan,
                 .program = made.program,
                 .slots = count_slots(made.program),
                 .memory = made.memory,
                 .capacity = made.capacity,
                 .usable = made.usable,
                 .reserve = setup.assumptions.reserve,
                 .options = options,
                 .config = setup.config(),
                 .assumptions = setup.stated(),
                 .warnings = setup.warnings(),
                 .cluster = &setup},
                options.has("json"));
}

}  // namespace

int run_check(const Arguments& arguments) {
  Options options("check", "PLAN | --model NAME --cluster NAME --schedule NAME [options]",
                  "Parses, lowers and verifies a plan, or a model on a cluster, and counts its "
                  "memory, device by device.");
  options.words("PLAN", 0, 1)
      .group("Check")
      .value("memory", "SIZE", "capacity of each device, such as 16GiB, which the plan has to fit")
      .value("schedule", "NAME", "on a cluster: name of a schedule")
      .value("microbatch-size", "B", "on a cluster: samples of a microbatch (default 1)");
  add_reserve_option(options);
  add_cluster_options(options);
  add_schedule_options(options);
  add_storage_option(options);
  options.parse(arguments);
  const bool on_cluster = names_a_cluster(options);
  if (on_cluster == !options.words().empty())
    throw UsageError("tandem check: give a plan, or a --model on a --cluster");
  if (!on_cluster && options.has("transfers"))
    throw UsageError("tandem check: --transfers is for a --model on a --cluster");
  if (on_cluster && options.has("storage"))
    throw UsageError("tandem check: --storage is for a PLAN: a --model on a --cluster has --dtype");
  return on_cluster ? check_cluster(options) : check_plan(options);
}

}  // namespace tandem::tools
