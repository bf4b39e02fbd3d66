#include "simulator/cost/cluster_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "simulator/cost/boundary_transfer.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/cost/plane_prices.h"

namespace tandem {

namespace {

Duration duration_of(double seconds) { return Duration(std::llround(seconds * 1e9)); }

/// The time of each to sum `bytes`: by measured constants where there are any.
std::vector<Duration> all_reduce(const std::vector<ClusterLayout::SumWays>& sums,
                                 const std::vector<Bytes>& bytes, const DeviceSpec& device,
                                 const AnalyticAssumptions& assumptions) {
  if (!assumptions.collectives)
    return ClusterLayout::all_reduce(sums, bytes, constants_of(assumptions, device));
  std::vector<Duration> times;
  for (std::size_t i = 0; i < sums.size(); ++i)
    times.push_back(all_reduce_time(*assumptions.collectives, sums[i].group, bytes[i]));
  return times;
}

/// For each device of the plan the time to sum a boundary's values over those that share a layer,
/// everywhere at once.
std::vector<Duration> tensor_sums(const Plan& plan, const ClusterLayout& layout,
                                  const AnalyticAssumptions& assumptions, SequencePart part) {
  std::vector<Duration> slowest(layout.depth());
  if (layout.tensor() == 1) return slowest;
  const auto& sums = layout.tensor_sums();
  const Bytes boundary =
      boundary_bytes(plan.model, part, plan.microbatch_size, bytes_of(assumptions.format));
  const auto times = all_reduce(sums, std::vector<Bytes>(sums.size(), boundary),
                                layout.first_device(), assumptions);
  for (std::size_t i = 0; i < times.size(); ++i) {
    Duration& most = slowest[i / layout.width()];
    most = std::max(most, times[i]);
  }
  return slowest;
}

}  // namespace

static LayerTimes layer_times(const Plan& plan, const DeviceSpec& device,
                              const AnalyticAssumptions& assumptions, Duration tensor_sum,
                              SequencePart part) {
  if (assumptions.measured && !part.is_whole()) {
    throw InputError(fmt::format(
        "the profile times whole sequences, and schedule {} cuts them into slices", plan.schedule));
  }
  if (assumptions.measured) {
    return measured_layers(*assumptions.measured, plan.model, plan.microbatch_size,
                           plan.request.recompute, assumptions.tensor);
  }
  return analytic_layers(plan.model, plan.microbatch_size, plan.request.recompute, plan.optimizer,
                         device, assumptions, tensor_sum, part);
}

ClusterLayers::ClusterLayers(const Plan& plan, const ClusterLayout& layout,
                             const AnalyticAssumptions& assumptions, SequencePart part)
    : tensor_sums_(tensor_sums(plan, layout, assumptions, part)), of_device_(layout.depth()) {
  std::map<std::pair<const DeviceSpec*, Duration>, std::size_t> known;
  const std::string& only = layout.first_device().name;
  for (const DeviceId device : ids(of_device_)) {
    const Duration sum = tensor_sums_[index(device)];
    for (const DeviceSpec* kind : layout.kinds(device)) {
      if (assumptions.measured && kind->name != only) {
        throw InputError(fmt::format("a profile is of one kind of device: {} has {} and {}",
                                     layout.cluster().name(), only, kind->name));
      }
      const auto [place, first] = known.try_emplace({kind, sum}, kinds_.size());
      if (first) kinds_.push_back(layer_times(plan, *kind, assumptions, sum, part));
      of_device_[device].push_back(place->second);
    }
    std::ranges::sort(of_device_[device]);
  }
}

static Duration forward_and_backward(const StageTimes& times) {
  return times.forward + times.backward;
}

LayerTimes layers_alone(const Plan& plan, const ClusterLayout& layout,
                        const AnalyticAssumptions& assumptions, DeviceId first, SequencePart part) {
  const Cluster& cluster = layout.cluster();
  std::vector<DeviceId> group;
  for (std::size_t member = 0; member < static_cast<std::size_t>(assumptions.tensor); ++member)
    group.push_back(id_at<DeviceId>(index(first) + member));
  Duration sum{};
  if (group.size() > 1) {
    const Bytes boundary =
        boundary_bytes(plan.model, part, plan.microbatch_size, bytes_of(assumptions.format));
    sum = all_reduce(layout.sum_ways({group}), {boundary}, layout.first_device(), assumptions)
              .front();
  }
  const LayerRange all{0, static_cast<std::int32_t>(layers_of(plan.model).size())};
  std::optional<LayerTimes> fastest;
  for (const DeviceId device : group) {
    LayerTimes times = layer_times(plan, cluster[device], assumptions, sum, part);
    if (!fastest || forward_and_backward(times.of(all)) < forward_and_backward(fastest->of(all)))
      fastest = std::move(times);
  }
  return std::move(*fastest);
}

const LayerTimes& ClusterLayers::slowest(DeviceId device, LayerRange range) const {
  if (of_device_[device].size() == 1) return kinds_[of_device_[device].front()];
  return kinds_[*std::ranges::max_element(of_device_[device], {}, [&](std::size_t kind) {
    return forward_and_backward(kinds_[kind].of(range));
  })];
}

namespace {

class Pricing {
 public:
  Pricing(const Plan& plan, const Placement& placement, const ClusterLayout& layout,
          const AnalyticAssumptions& assumptions, SequencePart part = {})
      : plan_(plan),
        placement_(placement),
        layout_(layout),
        assumptions_(assumptions),
        constants_(constants_of(assumptions, layout.first_device())),
        part_(part),
        once_each_(placement.stages() == placement.replicas()),
        layers_(plan, layout, assumptions, part) {}

  StageCosts costs() {
    price_ways();
    price_stages();
    add_planes(costs_, plan_, update_bytes(plan_.optimizer, assumptions_.format));
    price_sums();
    return std::move(costs_);
  }
  /// Of what is computed alone.
  StageCosts computation() {
    for (const StageId stage : all_ids<StageId>(placement_.stages())) {
      const LayerRange range = plan_.stages[index(stage)];
      StageTimes times = slowest_layers(stage, range).of(range);
      times.update /= optimizer_shards(plan_, assumptions_);
      costs_.stages.push_back(times);
    }
    return std::move(costs_);
  }
  /// Of what ops and transfers take.
  StageCosts costs_of_part() {
    price_ways();
    price_stages();
    return std::move(costs_);
  }

 private:
  Duration transfer(DeviceId source, DeviceId target, Bytes bytes) const {
    return layout_.transfer(source, target, bytes, constants_);
  }

  void price_ways() {
    const std::size_t devices = placement_.devices;
    costs_.ways.assign(devices * devices, Duration{});
    const auto price = [&](DeviceId source, DeviceId target) {
      Duration& way = costs_.ways[index(source) * devices + index(target)];
      if (source == target || way != Duration{}) return;
      way = boundary_transfer(plan_, layout_, assumptions_, part_, source, target,
                              layers_.tensor_sum(target));
    };
    for (const Placement::Edge& edge : placement_.edges) {
      const DeviceId from = placement_.device[edge.from], to = placement_.device[edge.to];
      price(from, to);
      price(to, from);
    }
    for (std::size_t next = 1; next < devices; ++next) {
      price(id_at<DeviceId>(next - 1), id_at<DeviceId>(next));
      costs_.links.push_back(costs_.ways[(next - 1) * devices + next]);
    }
  }

  /// On the slowest of the devices that hold it.
  const LayerTimes& slowest_layers(StageId stage, LayerRange range) const {
    const auto slowest = [&](ReplicaId replica) -> const LayerTimes& {
      return layers_.slowest(placement_.device[replica], range);
    };
    if (once_each_) return slowest(id_at<ReplicaId>(index(stage)));
    const std::vector<ReplicaId> replicas = placement_.replicas_of(stage);
    return slowest(*std::ranges::max_element(replicas, {}, [&](ReplicaId replica) {
      return forward_and_backward(slowest(replica).of(range));
    }));
  }

  void price_stages() {
    const std::vector<LayerKind> kinds = layers_of(plan_.model);
    const auto kinds_in = [&](LayerRange range) {
      return std::span(kinds).subspan(static_cast<std::size_t>(range.first),
                                      static_cast<std::size_t>(range.last - range.first));
    };
    const LayerTimes* before = nullptr;
    StageTimes slowest;
    std::vector<StageTimes> each;
    StageBytes bytes;
    for (const StageId stage : all_ids<StageId>(placement_.stages())) {
      const LayerRange range = plan_.stages[index(stage)];
      const LayerTimes& layers = slowest_layers(stage, range);
      // Most stages are like the one before.
      if (std::exchange(before, &layers) != &layers ||
          !std::ranges::equal(kinds_in(range), kinds_in(plan_.stages[index(stage) - 1]))) {
        slowest = layers.of(range);
        each = layers.each_of(range);
        const std::int32_t shards = optimizer_shards(plan_, assumptions_);
        slowest.update /= shards;
        for (StageTimes& layer : each) layer.update /= shards;
        // Stages of one device share what it does for a batch.
        const std::int64_t stages =
            (std::ssize(placement_.device) + placement_.devices - 1) / placement_.devices;
        if (!assumptions_.measured) slowest.update += duration_of(constants_.batch_s) / stages;
        bytes = analytic_stage_bytes(plan_.model, range, plan_.microbatch_size, plan_.optimizer,
                                     plan_.request.recompute, assumptions_);
      }
      costs_.layers.insert(costs_.layers.end(), each.begin(), each.end());
      bytes_.push_back(bytes);
      if (!placement_.partner.empty()) {
        const DeviceId device = placement_.device[placement_.replicas_of(stage).front()];
        slowest.move =
            transfer(device, placement_.partner[device],
                     static_cast<Bytes>(layout_.tensor()) * bytes_.back()[SlotKind::stash]);
      }
      costs_.stages.push_back(slowest);
    }
  }

  void price_sums() {
    std::vector<Bytes> gradients;
    for (const StageBytes& stage : bytes_)
      gradients.insert(gradients.end(), layout_.tensor(), stage[SlotKind::gradients]);
    const Bytes most = *std::ranges::max_element(gradients);
    const auto& sums = layout_.gradient_sums(placement_);
    const auto times = all_reduce(sums, gradients, layout_.first_device(), assumptions_);
    for (std::size_t i = 0; i < times.size(); ++i) {
      Duration& reduce = costs_.stages[id_at<StageId>(i / layout_.tensor())].reduce;
      reduce = std::max(reduce, times[i]);
    }
    if (optimizer_shards(plan_, assumptions_) > 1) {
      for (StageTimes& stage : costs_.stages) {
        stage.update += stage.reduce / 2;
        stage.reduce -= stage.reduce / 2;
      }
    }
    const DeviceId first = placement_.device[placement_.replicas_of(StageId{}).front()];
    const StageId head = id_at<StageId>(placement_.stages() - 1);
    const DeviceId last = placement_.device[placement_.replicas_of(head).front()];
    if (first != last) {
      // Each end sends its half of the table and gets the other's sum, one step after the other.
      const Bytes table =
          Bytes{plan_.model.vocabulary} * plan_.model.width * bytes_of(assumptions_.format);
      costs_.reduce_tied = 2 * transfer(first, last, table / 2);
    }
    costs_.norm = norm(most / optimizer_shards(plan_, assumptions_), first, last);
  }

  Duration norm(Bytes gradients, DeviceId first, DeviceId last) const {
    const DeviceSpec& device = layout_.cluster()[layout_.at(first, 0)];
    const Duration pass = moving_time(
        static_cast<double>(gradients),
        device.memory_bytes_per_s * constants_of(assumptions_, device).memory_fraction, 0, {});
    const int levels = std::bit_width(static_cast<unsigned>(placement_.devices) - 1U);
    return pass + 2 * levels * transfer(first, last, 0);
  }

  const Plan& plan_;
  const Placement& placement_;
  const ClusterLayout& layout_;
  const AnalyticAssumptions& assumptions_;
  const Calibration constants_;  // of all links and sums
  const SequencePart part_;
  const bool once_each_;  // a replica of each stage
  const ClusterLayers layers_;
  std::vector<StageBytes> bytes_;
  StageCosts costs_;
};

}  // namespace

std::int32_t optimizer_shards(const Plan& plan, const AnalyticAssumptions& assumptions) {
  return assumptions.sharded_optimizer ? plan.request.width : 1;
}

StageCosts computation_costs(const Plan& plan, const Placement& placement,
                             const ClusterLayout& layout, const AnalyticAssumptions& assumptions) {
  StageCosts costs = Pricing(plan, placement, layout, assumptions).computation();
  for (const SequencePart part : sequence_parts(plan.request.slices, plan.model))
    costs.slices.push_back(Pricing(plan, placement, layout, assumptions, part).computation());
  return costs;
}

StageCosts cluster_costs(const Plan& plan, const Placement& placement, const ClusterLayout& layout,
                         const AnalyticAssumptions& assumptions) {
  TANDEM_CHECK(placement.stages() == plan.stages.size(), placement.stages(), plan.stages.size());
  TANDEM_CHECK(placement.devices == layout.depth(), placement.devices, layout.depth());
  StageCosts costs = Pricing(plan, placement, layout, assumptions).costs();
  for (const SequencePart part : sequence_parts(plan.request.slices, plan.model)) {
    costs.slices.push_back(Pricing(plan, placement, layout, assumptions, part).costs_of_part());
  }
  sum_slices(costs);
  return costs;
}

}  // namespace tandem
