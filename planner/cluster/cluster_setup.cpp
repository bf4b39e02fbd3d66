#include "planner/cluster/cluster_setup.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/memory/recomputed_layers.h"
#include "core/model/catalog.h"
#include "core/text/count_text.h"
#include "simulator/cost/measured_layers.h"

namespace tandem {

namespace {

/// Updates are priced as they were measured.
void check_optimizer(const Plan& plan, const AnalyticAssumptions& assumptions) {
  if (!assumptions.measured) return;
  const OptimizerKind measured = assumptions.measured->begin()->second.optimizer;
  if (measured == plan.optimizer) return;
  throw InputError(fmt::format("the profile measured updates of {}, not {}: give --optimizer {}",
                               name(measured), name(plan.optimizer), name(measured)));
}

/// Width and depth as given, the rest of the devices unused.
void set_shape(const ClusterRequest& request, Plan& plan) {
  const Cluster& cluster = *request.cluster;
  const auto devices = static_cast<std::int64_t>(cluster.size());
  const std::int64_t depth = *request.depth, tensor = request.assumptions.tensor;
  const std::int64_t width =
      request.width.value_or(std::max<std::int64_t>(1, devices / depth / tensor));
  if (width * depth * tensor > devices) {
    throw ShapeError(fmt::format("{} of {} take{} {}: cluster {} has {}",
                                 counted(width, "pipeline"), counted(depth, "stage"),
                                 width == 1 ? "s" : "", counted(width * depth * tensor, "device"),
                                 cluster.name(), devices));
  }
  plan.request.width = static_cast<std::uint16_t>(width);
  plan.request.devices = *request.depth;
}

/// Samples of a batch for so many devices.
std::int64_t samples(const ClusterRequest& request, std::int64_t devices) {
  return request.global_batch.value_or(kMicrobatchesADevice * devices *
                                       request.plan.microbatch_size);
}

ClusterSetup of_shape(ClusterRequest request) {
  Plan plan = request.plan;
  set_shape(request, plan);
  const ScheduleRequest& shape = plan.request;
  plan.request.microbatches =
      request.microbatches
          ? *request.microbatches
          : microbatches_of(samples(request, std::int64_t{shape.width} * shape.devices), plan);
  const ClusterLayout layout(*request.cluster, shape.width, shape.devices, request.order,
                             static_cast<std::size_t>(request.assumptions.tensor));
  ClusterPlan made = plan_on_cluster(plan, layout, request.assumptions, request.cut);
  return {.request = std::move(request), .made = std::move(made), .tried = {}};
}

ClusterSetup of_fastest_shape(ClusterRequest request) {
  ShapeRequest asked{.plan = request.plan,
                     .width = request.width,
                     .order = request.order,
                     .cut = request.cut,
                     .blocking_transfers = request.blocking_transfers};
  std::int64_t devices =
      static_cast<std::int64_t>(request.cluster->size()) / request.assumptions.tensor;
  if (request.width) devices -= devices % *request.width;
  if (request.microbatches)
    asked.plan.request.microbatches = *request.microbatches;
  else
    asked.global_batch = samples(request, std::max<std::int64_t>(devices, 1));
  ChosenShape chosen = choose_shape(asked, *request.cluster, request.assumptions);
  return {.request = std::move(request),
          .made = std::move(chosen.plan),
          .tried = std::move(chosen.tried)};
}

}  // namespace

Cluster cluster_of_nodes(const std::string& name, std::optional<Bytes> memory) {
  ClusterSpec spec = cluster_of_nodes(name);
  if (memory) {
    for (DeviceSpec& device : spec.devices) device.memory_bytes = *memory;
  }
  return Cluster(spec);
}

ClusterSetup set_up_on_cluster(ClusterRequest request) {
  TANDEM_CHECK(!request.microbatches || !request.global_batch);
  check_optimizer(request.plan, request.assumptions);
  return request.depth ? of_shape(std::move(request)) : of_fastest_shape(std::move(request));
}

std::size_t ClusterSetup::devices_used() const {
  return std::size_t{made.plan.request.width} * made.plan.request.devices *
         static_cast<std::size_t>(assumptions().tensor);
}

/// Of one sample.
static double flops_made_again(const Plan& plan) {
  if (plan.request.recompute == Recompute::stage) return forward_flops(plan.model);
  const std::vector<LayerKind> kinds = layers_of(plan.model);
  double flops = 0.0;
  for (const LayerRange stage : plan.stages) {
    for (const LayerRange again : recomputed_layers(plan.model, stage, plan.request.recompute)) {
      for (std::int32_t layer = again.first; layer < again.last; ++layer)
        flops += forward_flops(plan.model, kinds[static_cast<std::size_t>(layer)]);
    }
  }
  return flops;
}

ModelUse ClusterSetup::use() const {
  const Plan& plan = made.plan;
  ModelUse use{
      .tokens = plan.model.sequence, .flops = model_flops(plan.model), .devices = devices_used()};
  use.flops_done = use.flops + flops_made_again(plan);
  for (std::size_t device = 0; device < use.devices; ++device)
    use.peak_flops_per_s += cluster()[id_at<DeviceId>(device)].flops(assumptions().format);
  return use;
}

/// What of a use lies beyond what the constants were fitted to.
static std::vector<std::string> beyond(const FittedRange& fitted, const FittedRange& used) {
  std::vector<std::string> lines;
  for (const FittedRangeRow& row : kFittedRangeRows) {
    const FittedExtent& seen = fitted.*row.member;
    const std::int64_t value = (used.*row.member).most;
    if (seen.has(value)) continue;
    lines.push_back(fmt::format(
        "the calibration was fitted to {} from {} to {}: for {} its constants are a guess",
        row.what, seen.least, seen.most, value));
  }
  return lines;
}

std::vector<std::string> ClusterSetup::warnings() const {
  if (request.calibration && request.calibration->fitted) {
    const auto one = [](std::int64_t value) { return FittedExtent{value, value}; };
    const Plan& plan = made.plan;
    return beyond(*request.calibration->fitted,
                  {.devices = one(static_cast<std::int64_t>(devices_used())),
                   .tensor = one(assumptions().tensor),
                   .depth = one(plan.request.devices),
                   .width = one(plan.request.width),
                   .microbatch_size = one(plan.microbatch_size),
                   .model_width = one(plan.model.width)});
  }
  if (!assumptions().measured) return {};
  return interpolations(*assumptions().measured, made.plan.model, made.plan.microbatch_size,
                        assumptions().tensor);
}

}  // namespace tandem
