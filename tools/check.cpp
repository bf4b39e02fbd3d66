// tandem check: does a plan, or a model on a cluster, parse, verify and fit?

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/verify.h"
#include "planner/alternatives.h"
#include "planner/candidates.h"
#include "planner/cluster_alternatives.h"
#include "planner/stage_memory.h"
#include "tools/cluster_setup.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/options.h"
#include "tools/plan_setup.h"
#include "tools/schedule_options.h"

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

/// What fits instead: what is to be changed, and what the fullest device then needs.
struct Fit {
  std::string changes;
  std::string fullest;
};

/// What is checked, wherever it comes from.
struct Subject {
  std::string name;  // for messages: the plan's file, or the model and the cluster
  const Plan& plan;
  const Program& program;
  SlotCounts slots;
  DeviceMemory memory;
  Capacity capacity;
  std::vector<Fit> (*nearest)(const Subject& subject, const Options& options);
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
  std::string text = fmt::format("{}: the program of {} is not right: {} violations", subject.name,
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
      "the plan's own peak_bytes are others than these: it was changed, or made by another "
      "version"};
}

void print_memory(const DeviceMemory& memory, const Capacity& capacity) {
  fmt::print("{:>6}", "device");
  for (const ClassBytes& of : classes({})) fmt::print(" {:>11}", of.name);
  fmt::print(" {:>11}{}\n", "total", capacity ? "  fits" : "");
  for (const DeviceId device : ids(memory)) {
    fmt::print("{:>6}", index(device));
    for (const ClassBytes& of : classes(memory[device]))
      fmt::print(" {:>11}", print_bytes(of.bytes));
    const Bytes total = memory[device].total();
    fmt::print(" {:>11}{}\n", print_bytes(total),
               !capacity                      ? ""
               : total <= (*capacity)[device] ? "  yes"
                                              : "  NO");
  }
}

Json as_json(const DeviceMemory& memory, const Capacity& capacity) {
  Json devices = Json::array();
  for (const DeviceId device : ids(memory)) {
    Json row{{"device", index(device)}};
    for (const ClassBytes& of : classes(memory[device])) {
      row[fmt::format("{}_bytes", of.name)] = of.bytes;
    }
    row["peak_bytes"] = memory[device].total();
    row["capacity_bytes"] = capacity ? Json((*capacity)[device]) : Json(nullptr);
    row["fits"] = capacity ? Json(memory[device].total() <= (*capacity)[device]) : Json(nullptr);
    devices.push_back(std::move(row));
  }
  return devices;
}

/// What is missing where, and which plans near to this one fit.
std::string explain_misfit(const Subject& subject, const MemoryMiss& miss) {
  const Bytes limit = (*subject.capacity)[miss.device];
  std::string text = fmt::format(
      "{}: does not fit in {} a device: device {} needs {}, {} too much (largest: {}, {})",
      subject.name, print_bytes(limit), index(miss.device), print_bytes(miss.needed),
      print_bytes(miss.excess), miss.largest, print_bytes(miss.largest_bytes));
  const std::vector<Fit> nearest = subject.nearest(subject, subject.options);
  if (nearest.empty()) return text + "; no plan near to it fits";
  text += subject.cluster == nullptr ? "; these fit:" : "; these fit, with these options instead:";
  for (const Fit& one : nearest) text += fmt::format("\n  {} ({})", one.changes, one.fullest);
  return text;
}

/// Plans near to the plan.
std::vector<Fit> nearest_plans(const Subject& subject, const Options&) {
  const Placement& placement = subject.program.placement();
  if (placement.stages() != placement.devices) return {};
  std::vector<Fit> fits;
  for (const Alternative& one : nearest_fits(subject.plan, (*subject.capacity)[DeviceId{}])) {
    fits.push_back({fmt::format("{}", fmt::join(one.changes, ", ")),
                    fmt::format("{} on the fullest device", print_bytes(one.peak_bytes))});
  }
  return fits;
}

/// Options that make the alternative of what `given` makes: those that say something else, and
/// those whose defaults would.
std::string options_of(const ClusterAlternative& one, const Subject& subject,
                       const Options& given) {
  std::vector<std::string> words;
  const auto say = [&](const char* option, const auto& value, const auto& otherwise) {
    const std::string text = fmt::format("{}", value);
    if (text != given.text(option, fmt::format("{}", otherwise)))
      words.push_back(fmt::format("--{} {}", option, text));
  };
  const Plan& plan = one.request.plan;
  const AnalyticAssumptions& assumptions = one.request.assumptions;
  const auto group = std::size_t{plan.depth} * static_cast<std::size_t>(assumptions.tensor);
  const std::int64_t at_once = std::int64_t{plan.width} * plan.microbatch_size;
  if (plan.schedule != subject.plan.schedule) say("schedule", plan.schedule, "");
  if (plan.replicas.empty()) say("depth", plan.depth, "");
  say("width", plan.width, subject.cluster->cluster.size() / group);
  say("tensor", assumptions.tensor, 1);
  say("microbatch-size", plan.microbatch_size, 1);
  if (given.has("microbatches")) {
    say("microbatches", plan.microbatches, "");
  } else {
    say("global-batch", at_once * plan.microbatches, kMicrobatchesADevice * at_once * plan.depth);
  }
  say("recompute", name(plan.recompute), "none");
  say("zero", assumptions.sharded_optimizer ? 1 : 0, 0);
  say("cut", one.request.cut == StageCut::even ? "even" : "balanced", "balanced");
  if (plan.schedule == "gpipe") say("group", plan.group, 0);
  say("extra-in-flight", plan.extra_in_flight, 0);
  return fmt::format("{}", fmt::join(words, " "));
}

/// Plans near to the one on the cluster.
std::vector<Fit> nearest_on_cluster(const Subject& subject, const Options& options) {
  const ClusterSetup& on = *subject.cluster;
  std::vector<Fit> fits;
  for (const ClusterAlternative& one : nearest_cluster_fits(
           {.plan = subject.plan, .assumptions = on.assumptions, .order = on.order, .cut = on.cut},
           on.cluster)) {
    fits.push_back({options_of(one, subject, options),
                    fmt::format("{} on the fullest device, {}", print_bytes(one.peak_bytes),
                                index(one.fullest))});
  }
  return fits;
}

int report(const Subject& subject, bool json) {
  check_program(subject);
  const DeviceMemory& memory = subject.memory;
  const DeviceId fullest = fullest_device(memory);
  const ClassBytes largest = largest_class(memory[fullest]);
  const std::optional<MemoryMiss> miss =
      subject.capacity ? memory_miss(memory, *subject.capacity) : std::nullopt;
  const std::string misfit = miss ? explain_misfit(subject, *miss) : "";
  if (json) {
    if (miss) throw InfeasibleError(misfit);
    print_result("check", subject.config, subject.assumptions,
                 {{"instructions", subject.program.size()},
                  {"violations", 0},
                  {"fullest_device", index(fullest)},
                  {"largest_class", largest.name},
                  {"devices", as_json(memory, subject.capacity)}},
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
  print_memory(memory, subject.capacity);
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
      throw UsageError(fmt::format("tandem check: the plan says --{} already", name));
  }
  if (options.has("profile")) {
    throw UsageError(
        "tandem check: --profile is for a model on a cluster, whose stages it cuts: a plan has "
        "its stages");
  }
  const std::string& path = options.words()[0];
  const std::optional<Bytes> limit = options.bytes("memory");
  const PreparedPlan prepared =
      prepare_plan(path, global_norm(options), options.has("post-validation"));
  DeviceMemory memory = planned_memory(prepared);
  Capacity capacity;
  if (limit) capacity.emplace(memory.size(), *limit);
  std::vector<std::string> warnings = warnings_of(prepared.plan, memory);
  return report({.name = path,
                 .plan = prepared.plan,
                 .program = prepared.program,
                 .slots = prepared.slots,
                 .memory = std::move(memory),
                 .capacity = std::move(capacity),
                 .nearest = nearest_plans,
                 .options = options,
                 .config = {{"plan", path}, {"memory_bytes", limit ? Json(*limit) : Json(nullptr)}},
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
                 .nearest = nearest_on_cluster,
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
      .value("memory", "SIZE", "of each device, such as 16GiB: does it fit?")
      .value("schedule", "NAME", "on a cluster: name of a schedule")
      .value("microbatch-size", "B", "on a cluster: samples of a microbatch (default 1)");
  add_cluster_options(options);
  add_schedule_options(options);
  options.parse(arguments);
  const bool on_cluster = names_a_cluster(options);
  if (on_cluster == !options.words().empty())
    throw UsageError("tandem check: give a plan, or a --model on a --cluster");
  if (!on_cluster && options.has("transfers"))
    throw UsageError("tandem check: --transfers is for a --model on a --cluster");
  return on_cluster ? check_cluster(options) : check_plan(options);
}

}  // namespace tandem::tools
