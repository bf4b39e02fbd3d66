#include "planner/study/prepared_plan.h"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/files/read.h"
#include "core/lower/lower.h"
#include "core/memory/storage.h"
#include "core/schedule/options.h"
#include "core/text/files.h"
#include "core/text/json_document.h"
#include "core/text/json_position.h"
#include "planner/study/schedule_file.h"

namespace tandem {

namespace {

/// What is lowered in seconds, within a few GiB.
constexpr std::uint16_t kMostDepth = 4096;
constexpr std::int64_t kMostCells = 1 << 20;

[[noreturn]] void reject(const std::string& path, const std::string& pointer,
                         const std::string& message) {
  const SourcePlace place = locate(path, read_file(path, kLargestJson), pointer);
  throw InputError(std::vector<Diagnostic>{{message, place, {}}});
}

/// The schedule of its own that the plan names.
void read_user_schedule(const std::string& path, Plan& plan) {
  const std::string file = beside(path, plan.schedule_file);
  Schedule own = read_schedule(file);
  const auto expect = [&](const char* key, std::int64_t wanted, std::int64_t found) {
    if (wanted == found) return;
    reject(path, fmt::format("/{}", key),
           fmt::format("expected {}, as schedule file {} has, found {}", found, file, wanted));
  };
  expect("depth", plan.request.devices, own.placement.devices);
  expect("microbatches", plan.request.microbatches, own.whole_microbatches());
  expect("width", plan.request.width, own.width);
  if (plan.request.slices == Slicing{}) plan.request.slices.count = own.slices;
  if (plan.request.slices.count != own.slices) {
    reject(path, "/slices",
           fmt::format("schedule file {} cuts sequences into {} slices, the plan into {}", file,
                       own.slices, name(plan.request.slices)));
  }
  plan.user_schedule = std::make_shared<const Schedule>(std::move(own));
}

Schedule schedule_of(const std::string& path, const Plan& plan) {
  if (plan.request.devices > kMostDepth) {
    reject(path, "/depth",
           fmt::format("expected at most {} stages, found {}", kMostDepth, plan.request.devices));
  }
  if (static_cast<std::int64_t>(plan.stages.size()) * plan.request.units() > kMostCells) {
    const std::int32_t slices = plan.request.slices.count;
    reject(path, "/microbatches",
           fmt::format("{} microbatches{} on {} stages: expected a product of at most {}",
                       plan.request.microbatches,
                       slices == 1 ? "" : fmt::format(" of {} slices", slices), plan.stages.size(),
                       kMostCells));
  }
  try {
    if (plan.user_schedule == nullptr) check_schedule_options(path, plan);
    return make_schedule(plan);
  } catch (const InputError& error) {
    if (!error.diagnostics().front().place.file.empty()) throw;
    reject(path, "/schedule", error.what());
  }
}

}  // namespace

void check_schedule_options(const std::string& path, const Plan& plan) {
  const ScheduleTraits* traits = nullptr;
  try {
    traits = &find_schedule(plan.schedule);
  } catch (const UsageError& error) {
    reject(path, "/schedule", error.what());
  }
  if (const ScheduleOption* option = option_not_taken(*traits, plan.request)) {
    reject(path, fmt::format("/{}", option->key),
           fmt::format("schedule {} has no such option", traits->name));
  }
  if (plan.request.costs && !traits->orders_by_costs) {
    reject(path, "/order_costs",
           fmt::format("schedule {} has the same order at any costs", traits->name));
  }
}

PreparedPlan prepare_plan(const std::string& path, Plan plan, std::optional<bool> global_norm,
                          bool post_validation, Storage storage) {
  if (!plan.schedule_file.empty()) read_user_schedule(path, plan);
  plan.request.global_norm = global_norm.value_or(plan.request.global_norm);
  plan.request.post_validation = plan.request.post_validation || post_validation;
  Schedule schedule = schedule_of(path, plan);
  if (schedule.placement.stages() != plan.stages.size()) {
    reject(path, "/stages",
           fmt::format("schedule {} cuts the model into {} stages, but the plan has {} stages",
                       plan.schedule, schedule.placement.stages(), plan.stages.size()));
  }
  Program program = lower(schedule);
  if (plan.user_schedule != nullptr) {
    check_right(schedule, program);
    check_trained(schedule);
  }
  SlotCounts slots = count_slots(program);
  const std::vector<SequencePart> slices = sequence_parts(plan.request.slices, plan.model);
  Table<ReplicaId, StageBytes> bytes;
  for (const StageId stage : schedule.placement.stage) {
    bytes.push_back(stage_bytes(plan.model, plan.stages[index(stage)], plan.microbatch_size,
                                plan.optimizer, plan.request.recompute, storage, slices));
  }
  return {std::move(plan),  std::move(schedule), std::move(program),
          std::move(slots), std::move(bytes),    storage};
}

std::string profile_path_of(const std::string& plan_path, const Plan& plan,
                            const std::string& given) {
  if (!given.empty()) return given;
  if (plan.profile.empty()) {
    throw InputError(
        fmt::format("{}: the plan names no profile: give one with --profile FILE", plan_path));
  }
  return beside(plan_path, plan.profile);
}

std::vector<ProductAlgorithm> product_algorithms_of(const std::string& plan_path,
                                                    const Plan& plan) {
  if (plan.profile.empty()) return {};
  const std::string path = beside(plan_path, plan.profile);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return read_product_algorithms(path);
}

StageCosts costs_of(const Plan& plan, const Profile& profile, std::optional<double> link_rate) {
  StageCosts costs = costs_from_profile(profile, plan);
  if (!link_rate) return costs;
  costs.transfer += transmission_time(boundary_bytes(plan.model, plan.microbatch_size), *link_rate);
  for (const StageId stage : ids(costs.stages)) {
    const StageBytes bytes =
        stage_bytes(plan.model, plan.stages[index(stage)], plan.microbatch_size, plan.optimizer,
                    plan.request.recompute);
    if (auto& move = costs.stages[stage].move)
      *move += transmission_time(bytes[SlotKind::stash], *link_rate);
  }
  return costs;
}

Table<DeviceId, MemoryByClass> planned_memory(const PreparedPlan& prepared) {
  return memory_by_class(prepared.program, prepared.slots, prepared.bytes);
}

}  // namespace tandem
