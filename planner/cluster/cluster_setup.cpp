#include "planner/cluster/cluster_setup.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/memory/recomputed_layers.h"
#include "core/model/catalog.h"
#include "core/text/count_text.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/engine/blocking_transfers.h"
#include "simulator/simulate.h"

namespace tandem {

namespace {

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

/// On the request's cluster.
std::shared_ptr<const ClusterLayout> layout_of(const ClusterRequest& request,
                                               const std::shared_ptr<ClusterWays>& ways,
                                               const ScheduleRequest& shape) {
  const auto tensor = static_cast<std::size_t>(request.assumptions.tensor);
  if (request.memo) return request.memo->layout(shape.width, shape.devices, request.order, tensor);
  return std::make_shared<const ClusterLayout>(ways, shape.width, shape.devices, request.order,
                                               tensor);
}

ClusterPlan made_of(const ClusterRequest& request, const std::shared_ptr<ClusterWays>& ways,
                    const Plan& plan) {
  return plan_on_cluster(plan, *layout_of(request, ways, plan.request), request.assumptions,
                         request.cut, request.memo ? &request.memo->schedules() : nullptr);
}

ClusterSetup of_shape(ClusterRequest request) {
  Plan plan = request.plan;
  set_shape(request, plan);
  const ScheduleRequest& shape = plan.request;
  plan.request.microbatches =
      request.microbatches
          ? *request.microbatches
          : microbatches_of(samples(request, std::int64_t{shape.width} * shape.devices), plan);
  ClusterPlan made = made_of(request, std::make_shared<ClusterWays>(*request.cluster), plan);
  return {.request = std::move(request), .made = std::move(made), .tried = {}};
}

/// Widths to try, each with a depth.
std::vector<TriedShape> shapes_of(const ClusterRequest& request, std::size_t groups) {
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

ClusterSetup choose_shape(ClusterRequest request) {
  const Cluster& cluster = *request.cluster;
  const auto tensor = static_cast<std::size_t>(request.assumptions.tensor);
  std::vector<TriedShape> tried = shapes_of(request, cluster.size() / tensor);
  if (tried.empty()) {
    throw ShapeError(fmt::format("{} pipelines of groups of {} devices: cluster {} has {} devices",
                                 request.width.value_or(1), tensor, cluster.name(),
                                 cluster.size()));
  }
  auto devices = static_cast<std::int64_t>(cluster.size() / tensor);
  if (request.width) devices -= devices % *request.width;
  const std::int64_t batch = samples(request, std::max<std::int64_t>(devices, 1));
  std::optional<ClusterPlan> best;
  std::size_t best_row = 0;
  std::exception_ptr last;
  const auto ways = std::make_shared<ClusterWays>(cluster);
  const Activity progress("trying shapes", std::ssize(tried));
  for (std::size_t row = 0; row < tried.size(); ++row) {
    progress.step();
    TriedShape& shape = tried[row];
    Plan plan = request.plan;
    plan.request.width = shape.width;
    plan.request.devices = shape.depth;
    try {
      plan.request.microbatches =
          request.microbatches ? *request.microbatches : microbatches_of(batch, plan);
      ClusterPlan made = made_of(request, ways, plan);
      shape.samples_per_s = static_cast<double>(std::int64_t{shape.width} *
                                                plan.request.microbatches * plan.microbatch_size) /
                            period_s(made, request.blocking_transfers);
      shape.fits = made.fits();
      const TriedShape& before = tried[best_row];
      if (best && (shape.fits != before.fits ? before.fits
                   : shape.fits              ? shape.samples_per_s <= before.samples_per_s
                                             : made.excess() >= best->excess()))
        continue;
      best = std::move(made);
      best_row = row;
    } catch (const InputError& error) {
      shape.refusal = error.what();
      last = std::current_exception();
    }
  }
  if (!best) std::rethrow_exception(last);
  const auto chosen = tried.begin() + static_cast<std::ptrdiff_t>(best_row);
  std::rotate(tried.begin(), chosen, chosen + 1);
  return {.request = std::move(request), .made = std::move(*best), .tried = std::move(tried)};
}

}  // namespace

Cluster cluster_of_nodes(const std::string& name, std::optional<Bytes> memory) {
  ClusterSpec spec = cluster_of_nodes(name);
  if (memory) {
    for (DeviceSpec& device : spec.devices) device.memory_bytes = *memory;
  }
  return Cluster(spec);
}

void check_measured_optimizer(const Plan& plan, const AnalyticAssumptions& assumptions) {
  if (!assumptions.measured) return;
  const Optimizer measured = assumptions.measured->begin()->second.optimizer;
  if (measured == plan.optimizer) return;
  std::string options = fmt::format("--optimizer {}", name(measured.kind));
  if (measured.correction != plan.optimizer.correction)
    options += fmt::format(" --delay-correction {}", name(measured.correction));
  throw InputError(fmt::format("the profile measured updates of {}, not {}: give {}",
                               describe(measured), describe(plan.optimizer), options));
}

double period_s(const ClusterPlan& made, bool blocking_transfers) {
  const CostTable prices = price(made.program, cost_model(made.schedule.placement, made.costs));
  return blocking_transfers ? simulate(with_blocking_transfers(made.program), prices, {}).period_s()
                            : simulate(made.program, prices, {}).period_s();
}

ClusterSetup set_up_on_cluster(ClusterRequest request) {
  TANDEM_CHECK(!request.microbatches || !request.global_batch);
  check_measured_optimizer(request.plan, request.assumptions);
  return request.depth ? of_shape(std::move(request)) : choose_shape(std::move(request));
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

double peak_flops_per_s(const Cluster& cluster, std::size_t devices, NumberFormat format) {
  double sum = 0.0;
  for (std::size_t device = 0; device < devices; ++device)
    sum += cluster[id_at<DeviceId>(device)].flops(format);
  return sum;
}

ModelUse ClusterSetup::use() const {
  const Plan& plan = made.plan;
  ModelUse use{
      .tokens = plan.model.sequence, .flops = model_flops(plan.model), .devices = devices_used()};
  use.flops_done = use.flops + flops_made_again(plan);
  use.peak_flops_per_s = peak_flops_per_s(cluster(), use.devices, assumptions().format);
  return use;
}

std::optional<PredictionSpread> ClusterSetup::spread() const {
  const AnalyticAssumptions& a = assumptions();
  if (request.calibration) return request.calibration->spread;
  if (a.measured || a.product_fraction || a.memory_fraction || a.link_fraction) return std::nullopt;
  return cluster()[DeviceId{}].typical ? std::optional(kTypicalSpread) : std::nullopt;
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

static std::vector<std::string> doubts_of_constants(const ClusterSetup& setup) {
  if (setup.request.calibration && setup.request.calibration->fitted) {
    const auto one = [](std::int64_t value) { return FittedExtent{value, value}; };
    const Plan& plan = setup.made.plan;
    return beyond(*setup.request.calibration->fitted,
                  {.devices = one(static_cast<std::int64_t>(setup.devices_used())),
                   .tensor = one(setup.assumptions().tensor),
                   .depth = one(plan.request.devices),
                   .width = one(plan.request.width),
                   .microbatch_size = one(plan.microbatch_size),
                   .model_width = one(plan.model.width)});
  }
  if (!setup.assumptions().measured) return {};
  return interpolations(*setup.assumptions().measured, setup.made.plan.model,
                        setup.made.plan.microbatch_size, setup.assumptions().tensor);
}

/// Of kernels that end before the host has launched the next.
static std::string short_kernels_warning(const ClusterSetup& setup) {
  if (setup.assumptions().measured) return {};
  constexpr double kMuch = 0.1;
  const DeviceSpec& device = setup.cluster()[DeviceId{}];
  const double share = short_kernel_share(setup.made.plan.model, setup.made.plan.microbatch_size,
                                          device, setup.assumptions());
  if (share <= kMuch) return {};
  return fmt::format(
      "{:.0f} % of the devices' time is in kernels shorter than their launch, which is taken to be "
      "{:.3g} us of the host each: how fast this runs is the software's doing",
      100 * share, 1e6 * constants_of(setup.assumptions(), device).launch_s);
}

std::vector<std::string> ClusterSetup::warnings() const {
  std::vector<std::string> lines = doubts_of_constants(*this);
  if (std::string line = short_kernels_warning(*this); !line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace tandem
