#include "planner/cluster_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "core/lower.h"
#include "planner/batch_work.h"
#include "planner/partition.h"
#include "simulator/blocking_transfers.h"
#include "simulator/cost/iteration_model.h"
#include "simulator/simulate.h"

namespace tandem {

namespace {

constexpr std::size_t kMostDepth = 1024;
constexpr std::int64_t kMostCells = 1 << 20;
constexpr std::int32_t kMostMicrobatches = 65'535;

void check_size(const Plan& plan) {
  const std::size_t parts = part_count(plan), layers = layers_of(plan.model).size();
  if (parts > layers) {
    throw InputError(fmt::format("schedule {} cuts the model into {} stages, but {} has {} layers",
                                 plan.schedule, parts, plan.model.name, layers));
  }
  if (plan.depth > kMostDepth ||
      static_cast<std::int64_t>(parts) * plan.microbatches > kMostCells) {
    throw InputError(fmt::format(
        "{} microbatches on {} stages of {} devices: expected a product of at most {}, and {} "
        "devices",
        plan.microbatches, parts, plan.depth, kMostCells, kMostDepth));
  }
}

/// The cut whose busiest stage works least. With `fits`, of those in which each stage fits alone.
std::optional<std::vector<LayerRange>> balanced_cut(
    const Plan& plan, const Placement& placement, const BatchWork& work,
    const ClusterLayers& layers, std::function<bool(LayerRange, std::size_t)> fits) {
  std::vector<std::vector<StageId>> stages;
  for (const PartId part : all_ids<PartId>(placement.parts())) {
    stages.push_back(placement.replicas_of(part));
  }
  return partition({.layers = static_cast<std::int32_t>(layers_of(plan.model).size()),
                    .depth = static_cast<std::int32_t>(stages.size()),
                    .cost =
                        [&](LayerRange range, std::size_t part) {
                          Duration most{};
                          for (const StageId stage : stages[part]) {
                            most = std::max(
                                most, work.of(stage, layers.of(placement.device[stage], range)));
                          }
                          return most.count();
                        },
                    .fits = std::move(fits)});
}

std::vector<LayerRange> balanced_stages(const Plan& plan, const Schedule& schedule,
                                        const SlotCounts& slots, const ClusterLayout& layout,
                                        const AnalyticAssumptions& assumptions) {
  const Placement& placement = schedule.placement;
  const BatchWork work(schedule);
  const ClusterLayers layers(plan, layout, assumptions);
  // Where each stage has its device for itself, a cut that fits is found if there is one.
  if (placement.stages() == placement.devices && placement.parts() == placement.stages() &&
      placement.partner.empty()) {
    RangeBytes bytes = analytic_range_bytes(plan, assumptions);
    const auto fits = [&](LayerRange range, std::size_t part) {
      const StageId stage = id_at<StageId>(part);
      try {
        return stage_total(slots[stage], bytes.of(range, plan.microbatch_size, plan.recompute)) <=
               layout.memory(placement.device[stage]);
      } catch (const InputError&) {
        return false;  // more than can be counted; a shorter range may do
      }
    };
    if (auto found = balanced_cut(plan, placement, work, layers, fits)) return std::move(*found);
  }
  auto found = balanced_cut(plan, placement, work, layers, {});
  TANDEM_CHECK(found.has_value(), placement.parts());
  return std::move(*found);
}

void check_blocks(const ModelSpec& model, std::size_t parts) {
  if (static_cast<std::int64_t>(parts) <= model.blocks) return;
  throw InputError(fmt::format("an even cut into {} stages needs as many blocks: {} has {}", parts,
                               model.name, model.blocks));
}

/// Bytes that no device has would leave the range of integers when they are multiplied.
void check_bytes(const SlotCounts& slots, const Table<StageId, StageBytes>& bytes) {
  constexpr double kMost = 0x1p58;
  double all = 0;
  for (const StageId stage : ids(bytes)) {
    for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
      all += static_cast<double>(slots[stage].counts[kind]) *
             static_cast<double>(bytes[stage].slot[kind]);
    }
  }
  if (all > kMost) {
    throw InputError(
        fmt::format("the devices would hold {:.3g} bytes: expected at most {:.3g}", all, kMost));
  }
}

Bytes excess(const ClusterPlan& plan) {
  Bytes most = std::numeric_limits<Bytes>::min();
  for (const DeviceId device : ids(plan.memory)) {
    most = std::max(most, plan.memory[device].total() - plan.capacity[device]);
  }
  return most;
}

}  // namespace

bool ClusterPlan::fits() const { return excess(*this) <= 0; }

RangeBytes analytic_range_bytes(const Plan& plan, const AnalyticAssumptions& assumptions) {
  const std::int32_t shards = optimizer_shards(plan, assumptions);
  return RangeBytes([model = plan.model, optimizer = plan.optimizer, assumptions, shards](
                        LayerRange range, std::int32_t microbatch_size, Recompute recompute) {
    return analytic_stage_bytes(model, range, microbatch_size, optimizer, recompute, assumptions,
                                shards);
  });
}

std::int32_t microbatches_of(std::int64_t global_batch, const Plan& plan) {
  const std::int64_t at_once = std::int64_t{plan.width} * plan.microbatch_size;
  const std::int64_t microbatches = global_batch / at_once;
  if (global_batch % at_once == 0 && microbatches >= 1 && microbatches <= kMostMicrobatches)
    return static_cast<std::int32_t>(microbatches);
  throw InputError(
      fmt::format("a batch of {} is not 1 to {} times {} pipelines of microbatches of {}",
                  global_batch, kMostMicrobatches, plan.width, plan.microbatch_size));
}

ClusterPlan plan_on_cluster(Plan plan, const ClusterLayout& layout,
                            const AnalyticAssumptions& assumptions, StageCut cut) {
  TANDEM_CHECK(plan.depth == layout.depth() && plan.width == layout.width(), plan.depth,
               plan.width);
  check_size(plan);
  Schedule schedule = make_schedule(plan);
  const Placement& placement = schedule.placement;
  if (assumptions.sharded_optimizer && placement.parts() != placement.stages()) {
    throw InputError(
        fmt::format("schedule {} has replicas in a pipeline: the optimizer's state is shared out "
                    "over the width",
                    plan.schedule));
  }
  Program program = lower(schedule);
  SlotCounts slots = count_slots(program);
  if (cut == StageCut::even) {
    check_blocks(plan.model, placement.parts());
    plan.stages = even_stages(plan.model, placement.parts());
  } else {
    plan.stages = balanced_stages(plan, schedule, slots, layout, assumptions);
  }
  StageCosts costs = cluster_costs(plan, schedule.placement, layout, assumptions);
  if (find_schedule(plan.schedule).orders_by_costs) {
    plan.order_costs = order_costs(costs, plan.recompute);
    schedule = make_schedule(plan);
    program = lower(schedule);
    slots = count_slots(program);
    costs = cluster_costs(plan, schedule.placement, layout, assumptions);
  }
  Table<StageId, StageBytes> bytes;
  for (const PartId part : schedule.placement.part) {
    bytes.push_back(analytic_stage_bytes(plan.model, plan.stages[index(part)], plan.microbatch_size,
                                         plan.optimizer, plan.recompute, assumptions,
                                         optimizer_shards(plan, assumptions)));
  }
  check_bytes(slots, bytes);
  Table<DeviceId, MemoryByClass> memory = memory_by_class(program, slots, bytes);
  Table<DeviceId, Bytes> capacity;
  for (const DeviceId device : ids(memory)) capacity.push_back(layout.memory(device));
  return {std::move(plan),  std::move(schedule), std::move(program), std::move(costs),
          std::move(bytes), std::move(memory),   std::move(capacity)};
}

namespace {

/// Widths to try, each with a depth.
std::vector<TriedShape> shapes_of(const ShapeRequest& request, std::size_t groups) {
  std::vector<TriedShape> shapes;
  const bool pipelined = find_schedule(request.plan.schedule).only_devices != 1;
  for (std::size_t width = 1; width <= groups; ++width) {
    if (request.width ? width != *request.width : groups % width != 0) continue;
    const std::size_t depth = groups / width;
    // A pipeline is asked for; without one there would be nothing to schedule.
    if (!request.width && pipelined && depth == 1 && groups > 1) continue;
    shapes.push_back({.width = static_cast<std::uint16_t>(width),
                      .depth = static_cast<std::uint16_t>(depth),
                      .refusal = {}});
  }
  return shapes;
}

/// Better of two that were simulated.
bool better(const ClusterPlan& a, double a_rate, const ClusterPlan& b, double b_rate) {
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? a_rate > b_rate : excess(a) < excess(b);
}

}  // namespace

ChosenShape choose_shape(const ShapeRequest& request, const Cluster& cluster,
                         const AnalyticAssumptions& assumptions) {
  const auto tensor = static_cast<std::size_t>(assumptions.tensor);
  std::vector<TriedShape> tried = shapes_of(request, cluster.size() / tensor);
  if (tried.empty()) {
    throw InputError(fmt::format("{} pipelines of groups of {} devices: cluster {} has {} devices",
                                 request.width.value_or(1), tensor, cluster.name(),
                                 cluster.size()));
  }
  std::optional<ClusterPlan> best;
  std::size_t best_row = 0;
  for (std::size_t row = 0; row < tried.size(); ++row) {
    TriedShape& shape = tried[row];
    Plan plan = request.plan;
    plan.width = shape.width;
    plan.depth = shape.depth;
    try {
      if (request.global_batch) plan.microbatches = microbatches_of(*request.global_batch, plan);
      const std::int64_t samples =
          std::int64_t{plan.width} * plan.microbatches * plan.microbatch_size;
      const ClusterLayout layout(cluster, shape.width, shape.depth, request.order, tensor);
      ClusterPlan made = plan_on_cluster(std::move(plan), layout, assumptions, request.cut);
      const CostTable prices = price(made.program, cost_model(made.schedule.placement, made.costs));
      const double period =
          request.blocking_transfers
              ? simulate(with_blocking_transfers(made.program), prices, {}).period_s()
              : simulate(made.program, prices, {}).period_s();
      shape.samples_per_s = static_cast<double>(samples) / period;
      shape.fits = made.fits();
      if (best && !better(made, shape.samples_per_s, *best, tried[best_row].samples_per_s))
        continue;
      best = std::move(made);
      best_row = row;
    } catch (const InputError& error) {
      shape.refusal = error.what();
    }
  }
  if (!best) throw InputError(tried.back().refusal);
  std::rotate(tried.begin(), tried.begin() + static_cast<std::ptrdiff_t>(best_row),
              tried.begin() + static_cast<std::ptrdiff_t>(best_row) + 1);
  return {std::move(*best), std::move(tried)};
}

}  // namespace tandem
