#include "core/model/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/schedule/user_schedule.h"

namespace tandem {

/// Null: a user schedule, or a name that is none.
static const ScheduleTraits* traits_of(const Plan& plan) {
  if (!plan.schedule_file.empty()) return nullptr;
  const auto rows = schedules();
  const auto row = std::ranges::find(rows, plan.schedule, &ScheduleTraits::name);
  return row == rows.end() ? nullptr : &*row;
}

/// As the plan says, but where the schedule leaves no choice.
static std::uint16_t stages_per_device(const Plan& plan) {
  const ScheduleTraits* row = traits_of(plan);
  if (row == nullptr || row->replicas_per_device <= 1) return plan.request.chunks;
  return row->replicas_per_device / row->replicas_per_stage;
}

std::size_t stage_count(const Plan& plan) {
  if (plan.user_schedule != nullptr) return plan.user_schedule->placement.stages();
  if (!plan.schedule_file.empty()) return plan.stages.size();
  if (!plan.request.replicas.empty()) return plan.request.replicas.size();
  return std::size_t{plan.request.devices} * stages_per_device(plan);
}

std::vector<std::int32_t> summing_devices(const Plan& plan) {
  const ScheduleTraits* row = traits_of(plan);
  const bool two_ways = row != nullptr && row->replicas_per_stage > 1;
  const std::int32_t copies = two_ways ? plan.request.directions : 1;
  std::vector<std::int32_t> devices(stage_count(plan), copies * plan.request.width);
  for (std::size_t stage = 0; stage < plan.request.replicas.size(); ++stage)
    devices[stage] *= plan.request.replicas[stage];
  if (plan.user_schedule != nullptr) {
    for (const StageId stage : all_ids<StageId>(devices.size()))
      devices[index(stage)] *=
          static_cast<std::int32_t>(plan.user_schedule->placement.replicas_of(stage).size());
  }
  return devices;
}

ScheduleRequest schedule_request(const Plan& plan) {
  ScheduleRequest request = plan.request;
  // A single stage holds the one table that both ends use: nothing to sum.
  request.tied_embeddings = has_tied_ends(plan.model) && stage_count(plan) > 1;
  return request;
}

std::optional<std::string> reason_against(DelayCorrection correction, WeightSemantics weights,
                                          std::string_view schedule) {
  if (correction == DelayCorrection::none || weights == WeightSemantics::delayed_by_one)
    return std::nullopt;
  return fmt::format(
      "delay correction {} is for gradients that are one update late on every stage, as 2bw's are; "
      "the weights of schedule {} are {}",
      name(correction), schedule, name(weights));
}

Schedule make_schedule(const Plan& plan) {
  if (const auto reason =
          reason_against(plan.optimizer.correction, weight_semantics(plan), plan.schedule)) {
    throw InputError(*reason);
  }
  const ScheduleRequest request = schedule_request(plan);
  if (plan.user_schedule != nullptr) return completed(*plan.user_schedule, request);
  return make_schedule(find_schedule(plan.schedule), request);
}

WeightSemantics weight_semantics(const Plan& plan) {
  if (plan.user_schedule != nullptr) return weight_semantics(*plan.user_schedule);
  return find_schedule(plan.schedule).weights;
}

Table<StageId, Reading> readings_of(const Plan& plan) {
  if (plan.user_schedule != nullptr) return plan.user_schedule->readings;
  if (!find_schedule(plan.schedule).reads_planes) return {};
  return make_schedule(plan).readings;
}

}  // namespace tandem
