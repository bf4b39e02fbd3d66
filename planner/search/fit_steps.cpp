#include <algorithm>
#include <numeric>
#include <set>

#include "core/lower/lower.h"
#include "core/schedule/options.h"
#include "planner/search/candidates.h"
#include "planner/search/fit_search.h"

namespace tandem {

namespace {

std::vector<FitStep> smaller_microbatches(const Plan& plan) {
  std::vector<FitStep> steps;
  for (std::int32_t size = plan.microbatch_size / 2; size >= 1; size /= 2) {
    if (plan.microbatch_size % size == 0)
      steps.emplace_back([size](FitDraft& draft) { draft.request.plan.microbatch_size = size; });
  }
  return steps;
}

std::vector<FitStep> more_recomputation(const Plan& plan) {
  std::vector<FitStep> steps;
  for (const Recompute kind : {Recompute::selective, Recompute::full, Recompute::stage}) {
    if (kind.kind > plan.request.recompute.kind)
      steps.emplace_back([kind](FitDraft& draft) { draft.request.plan.request.recompute = kind; });
  }
  return steps;
}

/// The plain schedule holds no more than any of one stage a device, and trains the same or what
/// delays less.
std::vector<FitStep> plainer_schedule(const Plan& plan) {
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  const ScheduleTraits& plain = plain_schedule();
  if (&traits == &plain || traits.replicas_per_device != 1 || traits.replicas_per_stage != 1 ||
      traits.only_devices != 0 || option_not_taken(plain, plan.request) != nullptr)
    return {};
  return {[&plain](FitDraft& draft) { draft.request.plan.schedule = plain.name; }};
}

/// The row that cuts sequences and is `traits` where it doesn't, or this itself; null: none.
const ScheduleTraits* sliced(const ScheduleTraits& traits) {
  if (option_of(traits, &ScheduleRequest::slices) != nullptr) return &traits;
  const auto rows = schedules();
  const auto row = std::ranges::find(rows, traits.name, &ScheduleTraits::whole);
  return row == rows.end() ? nullptr : &*row;
}

/// As many slices of equal length: other kinds would have to be found anew for another shape. Of
/// long sequences, for products of short slices are slow.
std::vector<FitStep> more_slices(const Plan& plan) {
  constexpr std::int32_t kShortest = 2048;
  std::vector<FitStep> steps;
  const bool looks_back =
      plan.model.architecture != Architecture::transformer || plan.model.shape.causal;
  if (!looks_back || sliced(find_schedule(plan.schedule)) == nullptr) return steps;
  for (const std::int32_t count : {2, 4, 8, 16}) {
    if (count <= plan.request.slices.count || plan.model.sequence % count != 0 ||
        plan.model.sequence / count < kShortest)
      continue;
    steps.emplace_back([count](FitDraft& draft) {
      Plan& to = draft.request.plan;
      const ScheduleTraits* row = sliced(find_schedule(to.schedule));
      if (row == nullptr) return;
      to.schedule = row->name;
      to.request.slices = {.count = count};
    });
  }
  return steps;
}

std::vector<FitStep> smaller_groups(const Plan& plan) {
  std::vector<FitStep> steps;
  if (!find_schedule(plan.schedule).drains_groups) return steps;
  const std::int32_t first =
      plan.request.group == 0 ? plan.request.microbatches : plan.request.group;
  for (std::int32_t group = first / 2; group >= 1; group /= 2)
    steps.emplace_back([group](FitDraft& draft) { draft.request.plan.request.group = group; });
  return steps;
}

std::vector<FitStep> more_tensor(const FitRequest& request, const Cluster& cluster) {
  std::vector<std::int32_t> sizes(cluster.nodes());
  for (std::size_t i = 0; i < cluster.size(); ++i) ++sizes[cluster.node(id_at<DeviceId>(i))];
  const std::int32_t whole = std::accumulate(
      sizes.begin(), sizes.end(), 0, [](std::int32_t a, std::int32_t b) { return std::gcd(a, b); });
  std::vector<FitStep> steps;
  for (const std::int32_t tensor : {2, 4, 8}) {
    if (tensor > request.assumptions.tensor && tensor % request.assumptions.tensor == 0 &&
        whole % tensor == 0)
      steps.emplace_back([tensor](FitDraft& draft) { draft.request.assumptions.tensor = tensor; });
  }
  return steps;
}

std::vector<FitStep> smaller_batches(const Plan& plan) {
  std::vector<FitStep> steps;
  for (std::int32_t parts = 2; plan.request.microbatches % parts == 0; parts *= 2)
    steps.emplace_back([parts](FitDraft& draft) { draft.batch /= parts; });
  return steps;
}

/// One, two, three more, then twice as many, and so on.
std::vector<FitStep> more_nodes(const FitRequest& request, std::size_t most) {
  const std::size_t now = request.nodes;
  std::set<std::size_t> numbers;
  for (const std::size_t more : {1, 2, 3}) numbers.insert(now + more);
  for (const std::size_t times : {2, 3, 4, 6, 8}) numbers.insert(now * times);
  std::vector<FitStep> steps;
  for (const std::size_t nodes : numbers) {
    const std::size_t depth = request.plan.request.devices * nodes;
    if (nodes > most || depth % now != 0 || !request.plan.request.replicas.empty()) continue;
    steps.emplace_back([nodes, now, depth](FitDraft& draft) {
      draft.request.nodes = nodes;
      draft.devices = draft.devices * nodes / now;
      draft.request.plan.request.devices = static_cast<std::uint16_t>(depth / now);
    });
  }
  return steps;
}

std::vector<FitStep>& of(FitSteps& steps, FitChange kind) {
  return steps[static_cast<std::size_t>(kind)];
}

bool shape(FitDraft& draft, const Plan& from) {
  Plan& plan = draft.request.plan;
  const std::int64_t at_once = std::int64_t{plan.request.width} * plan.microbatch_size;
  const std::int64_t microbatches = draft.batch / at_once;
  if (draft.batch % at_once != 0 || microbatches < 1 || microbatches > kMostPlannedMicrobatches ||
      plan.request.devices * microbatches * plan.request.slices.count > kMostPlannedCells)
    return false;
  plan.request.microbatches = static_cast<std::int32_t>(microbatches);
  const ScheduleTraits& traits = find_schedule(plan.schedule);
  if (plan.request.devices != from.request.devices || !traits.orders_by_costs)
    plan.request.costs.reset();
  return !reason_against(traits, schedule_request(plan));
}

/// By the executors' bytes, in the plan's own cut or the one of least memory.
Fullest judge(FitRequest& request, std::size_t own_stages, Bytes limit, RangeBytes& bytes) {
  Plan& plan = request.plan;
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

std::int64_t batch_of(const Plan& plan) {
  return std::int64_t{plan.request.width} * plan.request.microbatches * plan.microbatch_size;
}

std::vector<FitStep> deeper_pipelines(const Plan& plan, std::size_t most, bool only_multiples) {
  std::vector<FitStep> steps;
  most = std::min({most, layers_of(plan.model).size(), std::size_t{kMostPlannedDevices}});
  for (std::size_t depth = plan.request.devices + std::size_t{1};
       depth <= most && plan.request.replicas.empty(); ++depth) {
    if (only_multiples && depth % plan.request.devices != 0) continue;
    steps.emplace_back([depth](FitDraft& draft) {
      draft.request.plan.request.devices = static_cast<std::uint16_t>(depth);
    });
  }
  return steps;
}

FitSteps plain_steps(const FitRequest& request) {
  const Plan& plan = request.plan;
  FitSteps steps;
  if (plan.request.extra_in_flight > 0) {
    of(steps, FitChange::extra_in_flight) = {
        [](FitDraft& draft) { draft.request.plan.request.extra_in_flight = 0; }};
  }
  if (request.cut != StageCut::balanced)
    of(steps, FitChange::cut) = {[](FitDraft& draft) { draft.request.cut = StageCut::balanced; }};
  of(steps, FitChange::microbatch_size) = smaller_microbatches(plan);
  of(steps, FitChange::slices) = more_slices(plan);
  of(steps, FitChange::schedule) = plainer_schedule(plan);
  of(steps, FitChange::group) = smaller_groups(plan);
  of(steps, FitChange::recompute) = more_recomputation(plan);
  of(steps, FitChange::global_batch) = smaller_batches(plan);
  return steps;
}

FitSteps cluster_steps(const FitRequest& request, const Cluster& cluster, std::size_t most_nodes) {
  FitSteps steps = plain_steps(request);
  if (!request.assumptions.sharded_optimizer) {
    of(steps, FitChange::zero) = {
        [](FitDraft& draft) { draft.request.assumptions.sharded_optimizer = true; }};
  }
  of(steps, FitChange::depth) = deeper_pipelines(request.plan, cluster.size(), true);
  of(steps, FitChange::tensor) = more_tensor(request, cluster);
  of(steps, FitChange::nodes) = more_nodes(request, most_nodes);
  return steps;
}

std::vector<NearFit> nearest_fits(const Plan& plan, Bytes limit, Storage storage) {
  if (plan.user_schedule != nullptr) return {};
  const Placement placement = make_schedule(plan).placement;
  if (placement.replicas() != placement.stages()) return {};
  FitRequest from{.plan = plan, .cut = StageCut::given};
  FitSteps steps = plain_steps(from);
  of(steps, FitChange::depth) =
      deeper_pipelines(plan, std::size_t{2} * plan.request.devices, false);
  RangeBytes bytes(plan.model, plan.optimizer, storage);
  return search_fits(
      {.from = {.request = from, .batch = batch_of(plan)},
       .steps = std::move(steps),
       .shape = [&](FitDraft& draft) { return shape(draft, plan); },
       .judge = [&](FitRequest& one) { return judge(one, plan.stages.size(), limit, bytes); }});
}

}  // namespace tandem
