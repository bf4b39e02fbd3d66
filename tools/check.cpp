// tandem check PLAN: does it parse, verify and fit?

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/verify.h"
#include "planner/alternatives.h"
#include "planner/candidates.h"
#include "planner/stage_memory.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/options.h"
#include "tools/plan_setup.h"
#include "tools/schedule_options.h"

namespace tandem::tools {

namespace {

constexpr std::size_t kMostShownViolations = 20;

using DeviceMemory = Table<DeviceId, MemoryByClass>;

DeviceId fullest_device(const DeviceMemory& memory) {
  DeviceId fullest{};
  for (const DeviceId device : ids(memory)) {
    if (memory[device].total() > memory[fullest].total()) fullest = device;
  }
  return fullest;
}

/// Throws DifferenceError when the plan's program would not run right.
void check_program(const PreparedPlan& prepared, const std::string& path) {
  const std::vector<Violation> violations = verify(prepared.program, prepared.slots);
  if (violations.empty()) return;
  std::string text = fmt::format("{}: the program of {} is not right: {} violations", path,
                                 prepared.plan.schedule, violations.size());
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

void print_memory(const DeviceMemory& memory, const std::optional<Bytes>& limit) {
  fmt::print("{:>6}", "device");
  for (const ClassBytes& of : classes({})) fmt::print(" {:>11}", of.name);
  fmt::print(" {:>11}{}\n", "total", limit ? "  fits" : "");
  for (const DeviceId device : ids(memory)) {
    fmt::print("{:>6}", index(device));
    for (const ClassBytes& of : classes(memory[device]))
      fmt::print(" {:>11}", print_bytes(of.bytes));
    const Bytes total = memory[device].total();
    fmt::print(" {:>11}{}\n", print_bytes(total), !limit ? "" : total <= *limit ? "  yes" : "  NO");
  }
}

Json as_json(const DeviceMemory& memory, const std::optional<Bytes>& limit) {
  Json devices = Json::array();
  for (const DeviceId device : ids(memory)) {
    Json row{{"device", index(device)}};
    for (const ClassBytes& of : classes(memory[device])) {
      row[fmt::format("{}_bytes", of.name)] = of.bytes;
    }
    row["peak_bytes"] = memory[device].total();
    row["capacity_bytes"] = limit ? Json(*limit) : Json(nullptr);
    row["fits"] = limit ? Json(memory[device].total() <= *limit) : Json(nullptr);
    devices.push_back(std::move(row));
  }
  return devices;
}

/// What is missing where, and which plans near to this one fit.
std::string explain_misfit(const PreparedPlan& prepared, const std::string& path,
                           const MemoryMiss& miss, Bytes limit) {
  std::string text = fmt::format(
      "{}: does not fit in {} a device: device {} needs {}, {} too much (largest: {}, {})", path,
      print_bytes(limit), index(miss.device), print_bytes(miss.needed), print_bytes(miss.excess),
      miss.largest, print_bytes(miss.largest_bytes));
  const std::size_t devices = prepared.program.placement().devices;
  if (prepared.program.placement().stages() != devices) return text;
  const std::vector<Alternative> nearest = nearest_fits(prepared.plan, limit);
  if (nearest.empty()) return text + "; no plan near to it fits";
  text += "; these fit:";
  for (const Alternative& one : nearest) {
    text += fmt::format("\n  {} ({} on the fullest device)", fmt::join(one.changes, ", "),
                        print_bytes(one.peak_bytes));
  }
  return text;
}

}  // namespace

int run_check(const Arguments& arguments) {
  Options options("check", "PLAN [--memory SIZE] [--clip NORM]",
                  "Parses, lowers and verifies a plan, and counts its memory, device by device.");
  options.words("PLAN", 1, 1)
      .value("memory", "SIZE", "of each device, such as 16GiB: does it fit?");
  add_clip_option(options);
  add_post_validation_option(options);
  options.parse(arguments);
  const std::string& path = options.words()[0];
  const std::optional<Bytes> limit = options.bytes("memory");
  const PreparedPlan prepared =
      prepare_plan(path, global_norm(options), options.has("post-validation"));
  check_program(prepared, path);
  const DeviceMemory memory = planned_memory(prepared);
  const DeviceId fullest = fullest_device(memory);
  const ClassBytes largest = largest_class(memory[fullest]);
  const std::optional<MemoryMiss> miss = limit ? memory_miss(memory, *limit) : std::nullopt;
  const std::string misfit = miss ? explain_misfit(prepared, path, *miss, *limit) : "";
  const std::vector<std::string> warnings = warnings_of(prepared.plan, memory);
  if (options.has("json")) {
    if (miss) throw InfeasibleError(misfit);
    print_result("check", {{"plan", path}, {"memory_bytes", limit ? Json(*limit) : Json(nullptr)}},
                 Json::object(),
                 {{"instructions", prepared.program.size()},
                  {"violations", 0},
                  {"fullest_device", index(fullest)},
                  {"largest_class", largest.name},
                  {"devices", as_json(memory, limit)}},
                 warnings);
    return 0;
  }
  fmt::print("{}: {}\nverified: {} instructions a batch, right for a run of any length\n\n", path,
             describe(prepared.plan), prepared.program.size());
  print_memory(memory, limit);
  fmt::print("\nFullest: device {}, {}; most of it {}, {}.\n", index(fullest),
             print_bytes(memory[fullest].total()), largest.name, print_bytes(largest.bytes));
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  if (miss) throw InfeasibleError(misfit);
  return 0;
}

}  // namespace tandem::tools
