#include <utility>

#include "core/lower/lower.h"
#include "planner/search/fit_search.h"
#include "planner/search/nearest_fits.h"

namespace tandem {

namespace {

bool shape(FitDraft& draft, const Plan& from) {
  Plan& plan = draft.request.plan;
  const std::int64_t at_once = std::int64_t{plan.request.width} * plan.microbatch_size;
  const std::int64_t microbatches = draft.batch / at_once;
  if (draft.batch % at_once != 0 || microbatches < 1 || microbatches > kMostPlannedMicrobatches ||
      plan.request.devices * microbatches > kMostPlannedCells)
    return false;
  plan.request.microbatches = static_cast<std::int32_t>(microbatches);
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  if (plan.request.devices != from.request.devices || !traits.orders_by_costs)
    plan.request.costs.reset();
  return !reason_against(traits, schedule_request(plan));
}

/// By the executors' bytes, in the plan's own cut or the one of least memory.
Fullest judge(const FitRequest& request, std::size_t own_stages, Bytes limit, RangeBytes& bytes) {
  Plan plan = request.plan;
  const Program program = lower(make_schedule(plan));
  const SlotCounts slots = count_slots(program);
  if (request.cut != StageCut::given || stage_count(plan) != own_stages)
    plan.stages = least_memory_cut(slots, plan, bytes);
  const Table<DeviceId, MemoryByClass> memory = device_memory(program, slots, plan, bytes);
  const DeviceId fullest = fullest_device(memory);
  const Bytes most = memory[fullest].total();
  return {.device = fullest, .bytes = most, .fits = most <= limit};
}

}  // namespace

std::vector<NearFit> nearest_fits(const Plan& plan, Bytes limit, Storage storage) {
  if (plan.user_schedule != nullptr) return {};
  FitRequest from{.plan = plan, .cut = StageCut::given};
  FitSteps steps = plain_steps(from);
  steps[static_cast<std::size_t>(FitChange::depth)] =
      deeper_pipelines(plan, std::size_t{2} * plan.request.devices, false);
  RangeBytes bytes(plan.model, plan.optimizer, storage);
  return search_fits(
      {.from = {.request = from, .batch = batch_of(plan)},
       .steps = std::move(steps),
       .shape = [&](FitDraft& draft) { return shape(draft, plan); },
       .judge =
           [&](const FitRequest& one) { return judge(one, plan.stages.size(), limit, bytes); }});
}

}  // namespace tandem
