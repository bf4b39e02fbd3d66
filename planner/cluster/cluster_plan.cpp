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
#include "planner/search/batch_work.h"
#include "planner/search/candidates.h"
#include "planner/search/partition.h"
#include "simulator/cost/iteration_model.h"
#include "simulator/cost/slice_programme.h"

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

/// What plans may fill of it.
Table<DeviceId, Bytes> usable_of(const ClusterLayout& layout,
                                 const AnalyticAssumptions& assumptions) {
  Table<DeviceId, Bytes> usable;
  for (const Bytes capacity : capacity_of(layout))
    usable.push_back(assumptions.reserve.usable(capacity));
  return usable;
}

/// The cut whose busiest stage works least. With `fits`, of those in which each stage fits alone.
std::optional<std::vector<LayerRange>> balanced_cut(
    const Plan& plan, const Placement& placement, const BatchWork& work,
    const ClusterLayers& layers, std::function<bool(LayerRange, std::size_t)> fits) {
  std::vector<std::vector<ReplicaId>> replicas;
  for (const StageId stage : all_ids<StageId>(placement.stages()))
    replicas.push_back(placement.replicas_of(stage));
  return partition(
      {.layers = static_cast<std::int32_t>(layers_of(plan.model).size()),
       .depth = static_cast<std::int32_t>(replicas.size()),
       .cost =
           [&](LayerRange range, std::size_t stage) {
             Duration most{};
             for (const ReplicaId replica : replicas[stage])
               most = std::max(most, work.of(replica, layers.of(placement.device[replica], range)));
             return most.count();
           },
       .fits = std::move(fits)});
}

/// A plan with its stages, and what its program holds.
struct CutPlan {
  Plan plan;
  Schedule schedule;
  Program program;
  SlotCounts slots;
};

std::vector<LayerRange> balanced_stages(const CutPlan& made, const ClusterLayout& layout,
                                        const AnalyticAssumptions& assumptions) {
  const Plan& plan = made.plan;
  const Placement& placement = made.schedule.placement;
  const BatchWork work(made.schedule);
  const ClusterLayers layers(plan, layout, assumptions);
  const Table<DeviceId, Bytes> usable = usable_of(layout, assumptions);
  // Where each stage has its device for itself, a cut that fits is found if there is one.
  if (placement.replicas() == placement.devices && placement.stages() == placement.replicas() &&
      placement.partner.empty()) {
    RangeBytes bytes = analytic_range_bytes(plan, assumptions);
    const bool by_framework = assumptions.fits_by == FitsBy::framework;
    const Table<ReplicaId, std::vector<SlicesHeld>> fullest =
        by_framework ? fullest_moments(made.program) : Table<ReplicaId, std::vector<SlicesHeld>>();
    const auto fits = [&](LayerRange range, std::size_t stage) {
      const ReplicaId replica = id_at<ReplicaId>(stage);
      try {
        const StageBytes& of = bytes.of(range, plan);
        const StageSlots& slots = made.slots[replica];
        return (by_framework ? framework_total(slots, of, fullest[replica])
                             : stage_total(slots, of)) <= usable[placement.device[replica]];
      } catch (const InputError&) {
        return false;  // more than can be counted; a shorter range may do
      }
    };
    if (auto found = balanced_cut(plan, placement, work, layers, fits)) return std::move(*found);
  }
  auto found = balanced_cut(plan, placement, work, layers, {});
  TANDEM_CHECK(found.has_value(), placement.stages());
  return std::move(*found);
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

/// Time of a stage's forward and backward for a part of each sequence: of equal stages.
SliceTime slice_time(const Plan& plan, const ClusterLayout& layout,
                     const AnalyticAssumptions& assumptions) {
  const auto stages = static_cast<std::int64_t>(stage_count(plan));
  const LayerRange all{0, static_cast<std::int32_t>(layers_of(plan.model).size())};
  return [&plan, &layout, &assumptions, stages, all](SequencePart part) {
    const StageTimes times = ClusterLayers(plan, layout, assumptions, part).of(DeviceId{}, all);
    return (times.forward + times.backward) / stages;
  };
}

/// Lengths of slices that the model or its times say.
void resolve_slices(Plan& plan, const ClusterLayout& layout,
                    const AnalyticAssumptions& assumptions) {
  Slicing& slices = plan.request.slices;
  if (slices == Slicing{}) return;
  if (slices.kind == Slicing::Kind::by_time) {
    slices = fastest_slicing(plan.model, assumptions.tensor,
                             static_cast<std::int64_t>(stage_count(plan)),
                             plan.request.microbatches, slice_time(plan, layout, assumptions));
  } else if (slices.kind == Slicing::Kind::by_work) {
    slices = Slicing::of_lengths(slice_lengths(slices, plan.model, assumptions.tensor));
  }
  slice_lengths(slices, plan.model);
  if (slices.count == 1) slices = {};
}

CutPlan cut_plan(Plan asked, const ClusterLayout& layout, const AnalyticAssumptions& assumptions,
                 StageCut cut) {
  TANDEM_CHECK(asked.request.devices == layout.depth() && asked.request.width == layout.width(),
               asked.request.devices, asked.request.width);
  resolve_slices(asked, layout, assumptions);
  check_size(asked);
  Schedule schedule = make_schedule(asked);
  Program program = lower(schedule);
  SlotCounts slots = count_slots(program);
  CutPlan made{std::move(asked), std::move(schedule), std::move(program), std::move(slots)};
  Plan& plan = made.plan;
  const Placement& placement = made.schedule.placement;
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
  } else if (cut == StageCut::balanced) {
    plan.stages = balanced_stages(made, layout, assumptions);
  } else {
    check_given(plan, placement.stages());
  }
  return made;
}

/// Where the schedule orders its ops by their costs, does so. Returns whether.
bool order_by_costs(CutPlan& made, const StageCosts& costs) {
  if (!find_schedule(made.plan.schedule).orders_by_costs) return false;
  made.plan.request.costs = order_costs(costs, made.plan.request.recompute);
  made.schedule = make_schedule(made.plan);
  made.program = lower(made.schedule);
  made.slots = count_slots(made.program);
  return true;
}

Table<ReplicaId, StageBytes> bytes_of_replicas(const CutPlan& cut,
                                               const AnalyticAssumptions& assumptions) {
  const Plan& plan = cut.plan;
  Table<ReplicaId, StageBytes> bytes;
  for (const StageId stage : cut.schedule.placement.stage) {
    bytes.push_back(analytic_stage_bytes(
        plan.model, plan.stages[index(stage)], plan.microbatch_size, plan.optimizer,
        plan.request.recompute, assumptions, optimizer_shards(plan, assumptions),
        sequence_parts(plan.request.slices, plan.model)));
  }
  check_bytes(cut.slots, bytes);
  return bytes;
}

Table<DeviceId, Bytes> totals(const Table<DeviceId, MemoryByClass>& memory) {
  Table<DeviceId, Bytes> bytes;
  for (const MemoryByClass& of : memory) bytes.push_back(of.total());
  return bytes;
}

ClusterMemory memory_of(const CutPlan& cut, const Table<ReplicaId, StageBytes>& bytes,
                        const ClusterLayout& layout, const AnalyticAssumptions& assumptions) {
  Table<DeviceId, MemoryByClass> framework = framework_memory(cut.program, cut.slots, bytes);
  Table<DeviceId, MemoryByClass> tandem = memory_by_class(cut.program, cut.slots, bytes);
  MemoryFigures figures{assumptions.fits_by, totals(framework), totals(tandem)};
  return {std::move(figures.by == FitsBy::framework ? framework : tandem), std::move(figures),
          usable_of(layout, assumptions)};
}

}  // namespace

Bytes ClusterMemory::excess() const {
  Bytes most = std::numeric_limits<Bytes>::min();
  for (const DeviceId device : ids(memory))
    most = std::max(most, memory[device].total() - usable[device]);
  return most;
}

RangeBytes analytic_range_bytes(const Plan& plan, const AnalyticAssumptions& assumptions) {
  const std::int32_t shards = optimizer_shards(plan, assumptions);
  return RangeBytes([model = plan.model, optimizer = plan.optimizer, assumptions, shards](
                        LayerRange range, std::int32_t microbatch_size, Recompute recompute,
                        const Slicing& slices) {
    return analytic_stage_bytes(model, range, microbatch_size, optimizer, recompute, assumptions,
                                shards, sequence_parts(slices, model));
  });
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

ClusterPlan plan_on_cluster(Plan plan, const ClusterLayout& layout,
                            const AnalyticAssumptions& assumptions, StageCut cut) {
  CutPlan made = cut_plan(std::move(plan), layout, assumptions, cut);
  const auto costs_of = [&] {
    return cluster_costs(made.plan, made.schedule.placement, layout, assumptions);
  };
  StageCosts costs = costs_of();
  if (order_by_costs(made, costs)) costs = costs_of();
  Table<ReplicaId, StageBytes> bytes = bytes_of_replicas(made, assumptions);
  ClusterMemory memory = memory_of(made, bytes, layout, assumptions);
  return {std::move(memory),       std::move(made.plan), std::move(made.schedule),
          std::move(made.program), std::move(costs),     std::move(bytes),
          capacity_of(layout)};
}

ClusterMemory memory_on_cluster(const Plan& plan, const ClusterLayout& layout,
                                const AnalyticAssumptions& assumptions, StageCut cut) {
  CutPlan made = cut_plan(plan, layout, assumptions, cut);
  if (find_schedule(plan.schedule).orders_by_costs)
    order_by_costs(made, cluster_costs(made.plan, made.schedule.placement, layout, assumptions));
  return memory_of(made, bytes_of_replicas(made, assumptions), layout, assumptions);
}

}  // namespace tandem
