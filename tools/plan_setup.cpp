#include "tools/plan_setup.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/io/read.h"
#include "core/lower.h"

namespace tandem::tools {

namespace {

Schedule schedule_of(const std::string& path, const Plan& plan) {
  try {
    return make_schedule(find_schedule(plan.schedule), schedule_request(plan));
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace

PreparedPlan prepare_plan(const std::string& path) {
  Plan plan = read_plan(path);
  Schedule schedule = schedule_of(path, plan);
  if (schedule.placement.parts() != plan.stages.size()) {
    throw InputError(fmt::format("{}: schedule {} cuts the model into {} parts, but the plan has {} stages", path,
                                 plan.schedule, schedule.placement.parts(), plan.stages.size()));
  }
  Program program = lower(schedule);
  SlotCounts slots = count_slots(program);
  Table<StageId, StageBytes> bytes;
  for (const PartId part : schedule.placement.part) {
    bytes.push_back(stage_bytes(plan.model, plan.stages[index(part)], plan.microbatch_size, plan.optimizer));
  }
  return {std::move(plan), std::move(schedule), std::move(program), std::move(slots), std::move(bytes)};
}

Profile profile_of(const std::string& plan_path, const Plan& plan, const std::string& profile_path) {
  if (!profile_path.empty()) return read_profile(profile_path);
  if (plan.profile.empty()) {
    throw InputError(fmt::format("{}: the plan names no profile: give one with --profile FILE", plan_path));
  }
  const std::filesystem::path beside = std::filesystem::path(plan_path).parent_path() / plan.profile;
  return read_profile(beside.string());
}

Table<DeviceId, MemoryByClass> planned_memory(const PreparedPlan& prepared) {
  return memory_by_class(prepared.program, prepared.slots, prepared.bytes);
}

}  // namespace tandem::tools
