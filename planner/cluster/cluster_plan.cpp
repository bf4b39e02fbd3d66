#include "planner/cluster/cluster_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/lower/lower.h"
#include "core/text/count_text.h"
#include "planner/search/alike_ranges.h"
#include "planner/search/candidates.h"
#include "simulator/cost/analytic_slices.h"
#include "simulator/cost/iteration_model.h"
#include "simulator/cost/slice_programme.h"
#include "simulator/engine/blocking_transfers.h"
#include "simulator/run_figures.h"

namespace tandem {

namespace {

constexpr std::size_t kMostDepth = 1024;
constexpr std::int64_t kMostCells = 1 << 20;

void check_size(const Plan& plan) {
  const std::size_t stages = stage_count(plan), layers = layers_of(plan.model).size();
  if (stages > layers) {
    throw ShapeError(fmt::format("schedule {} cuts the model into {} stages, but {} has {} layers",
                                 plan.schedule, stages, plan.model.name, layers));
  }
  if (plan.request.devices > kMostDepth ||
      static_cast<std::int64_t>(stages) * plan.request.units() > kMostCells) {
    const std::int32_t slices = plan.request.slices.count;
    throw InputError(fmt::format(
        "{} microbatches{} on {} stages of {} devices: expected a product of at most {}, and {} "
        "devices",
        plan.request.microbatches, slices == 1 ? "" : fmt::format(" of {} slices", slices), stages,
        plan.request.devices, kMostCells, kMostDepth));
  }
}

Table<DeviceId, Bytes> capacity_of(const ClusterLayout& layout) {
  Table<DeviceId, Bytes> capacity;
  for (const DeviceId device : all_ids<DeviceId>(layout.depth()))
    capacity.push_back(layout.memory(device));
  return capacity;
}

/// Stages that somebody gave are as many as the schedule has, and cover the model.
void check_given(const Plan& plan, std::size_t stages) {
  const auto layers = static_cast<std::int32_t>(layers_of(plan.model).size());
  if (plan.stages.size() != stages) {
    throw ShapeError(fmt::format("{} given: the pipeline has {}",
                                 counted(std::ssize(plan.stages), "stage"), stages));
  }
  std::int32_t next = 0;
  for (const LayerRange stage : plan.stages) {
    if (stage.first != next || stage.last <= stage.first || stage.last > layers) {
      throw ShapeError(fmt::format(
          "stage {}-{}: expected {}-N, N from {} to {}: the stages cover the {} layers of {}",
          stage.first, stage.last, next, next + 1, layers, layers, plan.model.name));
    }
    next = stage.last;
  }
  if (next != layers) {
    throw ShapeError(fmt::format("the stages end at layer {}: {} has {}", next, plan.model.name,
                                 counted(layers, "layer")));
  }
}

/// Bytes that no device has would leave the range of integers when they are multiplied.
void check_bytes(const SlotCounts& slots, const Table<ReplicaId, StageBytes>& bytes) {
  constexpr double kMost = 0x1p58;
  double all = 0;
  for (const ReplicaId replica : ids(bytes)) {
    for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
      all += static_cast<double>(slots[replica].counts[kind]) *
             static_cast<double>(bytes[replica].slot[kind]);
    }
  }
  if (all > kMost) {
    throw InputError(
        fmt::format("the devices would hold {:.3g} bytes: expected at most {:.3g}", all, kMost));
  }
}

/// Lengths of slices that the model or its times say.
void resolve_slices(Plan& plan, const ClusterLayout& layout,
                    const AnalyticAssumptions& assumptions) {
  Slicing& slices = plan.request.slices;
  if (slices == Slicing{}) return;
  if (slices.kind == Slicing::Kind::by_time) {
    const auto stages = static_cast<std::int64_t>(stage_count(plan));
    const SliceTime time = analytic_slice_time(plan, layout, assumptions, stages);
    slices =
        fastest_slices_of(plan.model, assumptions.tensor, stages, plan.request.microbatches, time)
            .slicing();
  } else if (slices.kind == Slicing::Kind::by_work) {
    slices = Slicing::of_lengths(slice_lengths(slices, plan.model, assumptions.tensor));
  }
  slice_lengths(slices, plan.model);
  if (slices.count == 1) slices = {};
}

/// Checks what is asked, and makes its slices' lengths known.
void complete(Plan& plan, const ClusterLayout& layout, const AnalyticAssumptions& assumptions) {
  TANDEM_CHECK(plan.request.devices == layout.depth() && plan.request.width == layout.width(),
               plan.request.devices, plan.request.width);
  resolve_slices(plan, layout, assumptions);
  check_size(plan);
}

void set_stages(Plan& plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
                const AnalyticAssumptions& assumptions, RangeBytes& bytes, StageCut cut) {
  const Placement& placement = lowered.schedule().placement;
  if (assumptions.sharded_optimizer && placement.stages() != placement.replicas()) {
    throw InputError(
        fmt::format("schedule {} has replicas in a pipeline: the optimizer's state is shared out "
                    "over the width",
                    plan.schedule));
  }
  if (cut == StageCut::even) {
    if (static_cast<std::int64_t>(placement.stages()) > plan.model.blocks) {
      throw ShapeError(fmt::format("an even cut into {} stages needs as many blocks: {} has {}",
                                   placement.stages(), plan.model.name, plan.model.blocks));
    }
    plan.stages = even_stages(plan.model, placement.stages());
  } else if (cut == StageCut::given) {
    check_given(plan, placement.stages());
  } else {
    plan.stages = balanced_stages(plan, lowered, layout, assumptions, bytes, cut);
  }
}

Table<ReplicaId, StageBytes> bytes_of_replicas(const Plan& plan, const LoweredSchedule& lowered,
                                               RangeBytes& bytes) {
  Table<ReplicaId, StageBytes> of_replicas;
  const AlikeRanges ranges(plan.model);
  for (const StageId stage : lowered.schedule().placement.stage)
    of_replicas.push_back(bytes.of(ranges.first_like(plan.stages[index(stage)]), plan));
  return of_replicas;
}

Table<DeviceId, Bytes> totals(const Table<DeviceId, MemoryByClass>& memory) {
  Table<DeviceId, Bytes> bytes;
  for (const MemoryByClass& of : memory) bytes.push_back(of.total());
  return bytes;
}

ClusterMemory memory_of(const LoweredSchedule& lowered, const Table<ReplicaId, StageBytes>& bytes,
                        const ClusterLayout& layout, const AnalyticAssumptions& assumptions) {
  Table<DeviceId, MemoryByClass> framework =
      framework_memory(lowered.program(), lowered.slots(), bytes);
  Table<DeviceId, MemoryByClass> tandem =
      memory_by_class(lowered.program(), lowered.slots(), bytes);
  MemoryFigures figures{assumptions.fits_by, totals(framework), totals(tandem)};
  return {std::move(figures.by == FitsBy::framework ? framework : tandem), std::move(figures),
          usable_of(layout, assumptions)};
}

/// Whether a device needs more than it has even with one slot of everything but activations; where
/// stashes are evicted, that is not known.
bool surely_too_large(const LoweredSchedule& lowered, const Table<ReplicaId, StageBytes>& bytes,
                      const Table<DeviceId, Bytes>& usable) {
  const Placement& placement = lowered.schedule().placement;
  if (!placement.partner.empty()) return false;
  const Table<DeviceId, double> held = peak_held(lowered.schedule(), framework_of(bytes));
  Table<DeviceId, Bytes> needed(placement.devices, 0), workspace = needed;
  for (const ReplicaId replica : ids(bytes)) {
    const StageBytes& of = bytes[replica];
    needed[placement.device[replica]] +=
        of[SlotKind::weights] + of[SlotKind::gradients] + of.optimizer;
    Bytes& most = workspace[placement.device[replica]];
    most = std::max(most, of.workspace);
  }
  for (const DeviceId device : ids(needed)) {
    if (static_cast<double>(needed[device] + workspace[device]) + held[device] >
        static_cast<double>(usable[device]))
      return true;
  }
  return false;
}

}  // namespace

Bytes ClusterMemory::excess() const {
  Bytes most = std::numeric_limits<Bytes>::min();
  for (const DeviceId device : ids(memory))
    most = std::max(most, memory[device].total() - usable[device]);
  return most;
}

std::int32_t microbatches_of(std::int64_t global_batch, const Plan& plan) {
  const auto microbatches =
      even_microbatches(global_batch, plan.request.width, plan.microbatch_size);
  if (microbatches && *microbatches >= 1 && *microbatches <= kMostPlannedMicrobatches)
    return static_cast<std::int32_t>(*microbatches);
  throw ShapeError(fmt::format(
      "a batch of {} is not 1 to {} times {} pipelines of microbatches of {}", global_batch,
      kMostPlannedMicrobatches, plan.request.width, plan.microbatch_size));
}

LoweredSchedule schedule_on_cluster(Plan& plan, const ClusterLayout& layout,
                                    const AnalyticAssumptions& assumptions, StageCut cut) {
  complete(plan, layout, assumptions);
  LoweredSchedule lowered(make_schedule(plan));
  RangeBytes bytes = analytic_range_bytes(plan, assumptions);
  set_stages(plan, lowered, layout, assumptions, bytes, cut);
  if (!find_schedule(plan.schedule).orders_by_costs) return lowered;
  return schedule_by_costs(plan,
                           cluster_costs(plan, lowered.schedule().placement, layout, assumptions));
}

LoweredSchedule schedule_by_costs(Plan& plan, const StageCosts& costs) {
  plan.request.costs = order_costs(costs, plan.request.recompute);
  return LoweredSchedule(make_schedule(plan));
}

void cut_outline(Plan& plan, const ScheduleOutline& outline, const ClusterLayout& layout,
                 const AnalyticAssumptions& assumptions, StageCut cut, KnownCuts& known) {
  complete(plan, layout, assumptions);
  plan.stages = known.of(plan, outline.work, layout, assumptions, cut);
}

/// Of a plan with its stages.
static ClusterPrices price_on_cluster(Plan plan, const LoweredSchedule& lowered,
                                      const ClusterLayout& layout,
                                      const AnalyticAssumptions& assumptions) {
  StageCosts costs = cluster_costs(plan, lowered.schedule().placement, layout, assumptions);
  RangeBytes of_ranges = analytic_range_bytes(plan, assumptions);
  Table<ReplicaId, StageBytes> bytes = bytes_of_replicas(plan, lowered, of_ranges);
  check_bytes(lowered.slots(), bytes);
  ClusterMemory memory = memory_of(lowered, bytes, layout, assumptions);
  return {std::move(memory), std::move(plan), std::move(costs), std::move(bytes),
          capacity_of(layout)};
}

ClusterPlan plan_on_cluster(Plan plan, const ClusterLayout& layout,
                            const AnalyticAssumptions& assumptions, StageCut cut,
                            KnownSchedules* known) {
  if (known != nullptr && !find_schedule(plan.schedule).orders_by_costs) {
    complete(plan, layout, assumptions);
    const std::shared_ptr<const LoweredSchedule> lowered = known->of(plan);
    RangeBytes bytes = analytic_range_bytes(plan, assumptions);
    set_stages(plan, *lowered, layout, assumptions, bytes, cut);
    return {price_on_cluster(std::move(plan), *lowered, layout, assumptions), lowered->schedule(),
            lowered->program()};
  }
  LoweredSchedule lowered = schedule_on_cluster(plan, layout, assumptions, cut);
  ClusterPrices prices = price_on_cluster(std::move(plan), lowered, layout, assumptions);
  auto [schedule, program] = std::move(lowered).take();
  return {std::move(prices), std::move(schedule), std::move(program)};
}

std::optional<ClusterPrices> prices_if_it_fits(
    Plan plan, const LoweredSchedule& lowered, const ClusterLayout& layout,
    const AnalyticAssumptions& assumptions, KnownBytes& known, StageCut cut,
    const std::function<bool(const Plan&, const StageCosts&)>& wanted) {
  complete(plan, layout, assumptions);
  RangeBytes& of_ranges = known.of(plan, assumptions);
  if (lowered.one_stage_a_device() && !may_fit(plan, lowered, layout, assumptions, of_ranges))
    return std::nullopt;
  set_stages(plan, lowered, layout, assumptions, of_ranges, cut);
  Table<ReplicaId, StageBytes> bytes = bytes_of_replicas(plan, lowered, of_ranges);
  if (assumptions.fits_by == FitsBy::framework &&
      surely_too_large(lowered, bytes, usable_of(layout, assumptions)))
    return std::nullopt;
  StageCosts costs = cluster_costs(plan, lowered.schedule().placement, layout, assumptions);
  if (!wanted(plan, costs)) return std::nullopt;
  check_bytes(lowered.slots(), bytes);
  ClusterMemory memory = memory_of(lowered, bytes, layout, assumptions);
  if (!memory.fits()) return std::nullopt;
  return ClusterPrices{std::move(memory), std::move(plan), std::move(costs), std::move(bytes),
                       capacity_of(layout)};
}

double period_s(const LoweredSchedule& lowered, const StageCosts& costs, bool blocking_transfers) {
  const CostTable prices =
      price(lowered.program(), cost_model(lowered.schedule().placement, costs));
  if (!blocking_transfers) return simulated_period_s(lowered.program(), lowered.compiled(), prices);
  const Program blocking = with_blocking_transfers(lowered.program());
  return simulated_period_s(blocking, CompiledProgram(blocking), prices);
}

ClusterMemory memory_on_cluster(const Plan& plan, const ClusterLayout& layout,
                                const AnalyticAssumptions& assumptions, StageCut cut) {
  Plan asked = plan;
  const LoweredSchedule lowered = schedule_on_cluster(asked, layout, assumptions, cut);
  RangeBytes of_ranges = analytic_range_bytes(asked, assumptions);
  const Table<ReplicaId, StageBytes> bytes = bytes_of_replicas(asked, lowered, of_ranges);
  check_bytes(lowered.slots(), bytes);
  return memory_of(lowered, bytes, layout, assumptions);
}

}  // namespace tandem
