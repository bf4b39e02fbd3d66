#include "core/model/plan.h"

#include <algorithm>

#include "core/schedule/user_schedule.h"

namespace tandem {

/// Null: a schedule of one's own, or a name that is none.
static const ScheduleTraits* traits_of(const Plan& plan) {
  if (!plan.schedule_file.empty()) return nullptr;
  const auto rows = schedules();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const ScheduleTraits& each) {
    return each.name == plan.schedule;
  });
  return row == rows.end() ? nullptr : &*row;
}

/// As the plan says, but where the schedule leaves no choice.
static std::uint16_t parts_per_device(const Plan& plan) {
  const ScheduleTraits* row = traits_of(plan);
  if (row == nullptr || row->stages_per_device <= 1) return plan.chunks;
  return row->stages_per_device / row->stages_per_part;
}

std::size_t part_count(const Plan& plan) {
  if (plan.user_schedule != nullptr) return plan.user_schedule->placement.parts();
  if (!plan.schedule_file.empty()) return plan.stages.size();
  if (!plan.replicas.empty()) return plan.replicas.size();
  return std::size_t{plan.depth} * parts_per_device(plan);
}

std::vector<std::int32_t> summing_devices(const Plan& plan) {
  const ScheduleTraits* row = traits_of(plan);
  const bool two_ways = row != nullptr && row->stages_per_part > 1;
  const std::int32_t copies = two_ways ? plan.directions : 1;
  std::vector<std::int32_t> devices(part_count(plan), copies * plan.width);
  for (std::size_t part = 0; part < plan.replicas.size(); ++part) {
    devices[part] *= plan.replicas[part];
  }
  if (plan.user_schedule != nullptr) {
    for (const PartId part : all_ids<PartId>(devices.size()))
      devices[index(part)] *=
          static_cast<std::int32_t>(plan.user_schedule->placement.replicas_of(part).size());
  }
  return devices;
}

ScheduleRequest schedule_request(const Plan& plan) {
  ScheduleRequest request;
  request.devices = plan.depth;
  request.microbatches = plan.microbatches;
  request.chunks = plan.chunks;
  request.group = plan.group;
  request.extra_in_flight = plan.extra_in_flight;
  request.replicas = plan.replicas;
  request.directions = plan.directions;
  request.vertical_sync = plan.vertical_sync;
  request.width = plan.width;
  request.recompute = plan.recompute;
  request.global_norm = plan.global_norm;
  request.post_validation = plan.post_validation;
  request.activation_cap = plan.activation_cap;
  request.costs = plan.order_costs;
  // A single stage holds the one table that both ends use: nothing to sum.
  request.tied_embeddings = has_tied_ends(plan.model) && part_count(plan) > 1;
  return request;
}

Schedule make_schedule(const Plan& plan) {
  const ScheduleRequest request = schedule_request(plan);
  if (plan.user_schedule != nullptr) return completed(*plan.user_schedule, request);
  return make_schedule(find_schedule(plan.schedule), request);
}

WeightSemantics weight_semantics(const Plan& plan) {
  if (plan.user_schedule != nullptr) return weight_semantics(*plan.user_schedule);
  return find_schedule(plan.schedule).weights;
}

}  // namespace tandem
