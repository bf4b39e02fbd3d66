#include "simulator/cost/stage_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/memory/storage.h"
#include "simulator/cost/fitted_slices.h"
#include "simulator/cost/measured_layers.h"
#include "simulator/cost/plane_prices.h"
#include "simulator/cost/transfer_time.h"

namespace tandem {

StageCosts uniform_costs(std::size_t stages, const StageTimes& times, Duration transfer) {
  return {.stages = Table<StageId, StageTimes>(stages, times), .transfer = transfer};
}

OrderCosts order_costs(const StageCosts& costs, Recompute recompute) {
  OrderCosts result{.stages = {}, .transfer = costs.transfer, .links = costs.links};
  for (const StageTimes& times : costs.stages) {
    const Duration again = recompute == Recompute::stage ? times.recompute : Duration{};
    result.stages.push_back({.forward = times.forward,
                             .backward_input = times.backward_input + again,
                             .backward_weight = times.backward_weight,
                             .update = times.update});
  }
  return result;
}

Duration compute_lane_time(OpKind kind, const StageTimes& times) {
  return on_compute_lane(kind) ? times.*kOpTimes[index(traits(kind).price)] : Duration{};
}

Duration overlapped_time(OpKind kind, const StageTimes& times) {
  const Duration alone = compute_lane_time(kind, times);
  const Duration sum = times.forward + times.backward;
  if (!times.overlapped) return alone;
  const double share = sum.count() == 0 ? 0.0
                                        : static_cast<double>(times.forward.count()) /
                                              static_cast<double>(sum.count());
  const Duration together = *times.overlapped;
  const Duration forward(std::llround(share * static_cast<double>(together.count())));
  const Price price = traits(kind).price;
  if (price == Price::forward) return forward;
  return price == Price::backward ? together - forward : alone;
}

Duration transfer_time(const StageCosts& costs, std::size_t devices, DeviceId source,
                       DeviceId target) {
  if (!costs.ways.empty()) return costs.ways[index(source) * devices + index(target)];
  if (costs.links.empty()) return costs.transfer;
  const std::size_t first = std::min(index(source), index(target));
  const std::size_t last = std::max(index(source), index(target));
  Duration sum{};
  for (std::size_t link = first; link < last; ++link) sum += costs.links[link];
  return sum;
}

void sum_slices(StageCosts& costs) {
  const auto add = [](StageTimes& sum, const StageTimes& of_slice, bool first) {
    for (const auto time : kOpTimes) {
      if (time == &StageTimes::update) continue;
      if (first) sum.*time = {};
      sum.*time += of_slice.*time;
    }
  };
  for (std::size_t slice = 0; slice < costs.slices.size(); ++slice) {
    const StageCosts& of = costs.slices[slice];
    for (const StageId stage : ids(costs.stages))
      add(costs.stages[stage], of.stages[stage], slice == 0);
    for (std::size_t layer = 0; layer < costs.layers.size(); ++layer)
      add(costs.layers[layer], of.layers[layer], slice == 0);
  }
}

CostModel cost_model(const Placement& placement, StageCosts costs) {
  TANDEM_CHECK(costs.stages.size() == placement.stages(), costs.stages.size(), placement.stages());
  const std::size_t devices = placement.devices;
  TANDEM_CHECK(costs.ways.empty() || costs.ways.size() == devices * devices, costs.ways.size(),
               devices);
  return [stage = placement.stage, devices, costs = std::move(costs)](const CostKey& key) {
    const bool of_slice = !costs.slices.empty() && (is_compute(key.kind) || is_transfer(key.kind));
    const StageCosts& own = of_slice ? costs.slices[key.slice] : costs;
    const StageTimes& times = own.stages[stage[key.replica]];
    const auto transfer = [&] { return transfer_time(own, devices, key.source, key.target); };
    switch (traits(key.kind).price) {
      case Price::stash:
        return times.move.value_or(transfer());
      case Price::transfer:
        return transfer();
      case Price::tied_sum:
        return costs.reduce_tied;
      case Price::replica_sum:
        return times.reduce;
      case Price::norm:
        return costs.norm;
      default:
        return key.span * (key.overlapped ? overlapped_time(key.kind, times)
                                          : compute_lane_time(key.kind, times));
    }
  };
}

StageCosts costs_from_profile(const Profile& profile, const ModelSpec& model,
                              const std::vector<LayerRange>& stages, std::int32_t microbatch_size,
                              Recompute recompute, const std::vector<std::int32_t>& summed) {
  const LayerTimes layers = measured_layers(profile, model, microbatch_size, recompute);
  StageCosts costs;
  costs.transfer = transfer_time(profile, boundary_bytes(model, microbatch_size));
  costs.reduce_tied = transfer_time(profile, 2 * static_cast<Bytes>(model.vocabulary) *
                                                 model.width * static_cast<Bytes>(sizeof(float)));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const LayerRange& range = stages[stage];
    StageTimes times = layers.of(range);
    for (const StageTimes& layer : layers.each_of(range)) costs.layers.push_back(layer);
    const StageBytes bytes =
        stage_bytes(model, range, microbatch_size, OptimizerKind::sgd, recompute);
    times.move = transfer_time(profile, bytes[SlotKind::stash]);
    const Bytes gradients = bytes[SlotKind::gradients];
    const std::int32_t devices = summed.empty() ? 1 : summed[stage];
    if (devices > 1) times.reduce = transfer_time(profile, 2 * (devices - 1) * gradients);
    costs.norm = std::max(costs.norm, transfer_time(profile, gradients));
    costs.stages.push_back(times);
  }
  costs.norm += transfer_time(profile, 0);
  return costs;
}

/// The profile with its layers on this part of sequences.
static Profile on_slice(const Profile& profile, SequencePart part) {
  Profile of_part = profile;
  of_part.layers = layers_on_slice(profile, part);
  return of_part;
}

StageCosts costs_from_profile(const Profile& profile, const Plan& plan) {
  const auto costs_of = [&](const Profile& measured) {
    return costs_from_profile(measured, plan.model, plan.stages, plan.microbatch_size,
                              plan.request.recompute, summing_devices(plan));
  };
  StageCosts costs = costs_of(profile);
  add_planes(costs, plan, update_bytes_on_cpu(plan.optimizer));
  if (plan.request.slices.count == 1) return costs;
  for (const SequencePart part : sequence_parts(plan.request.slices, plan.model)) {
    costs.slices.push_back(costs_of(on_slice(profile, part)));
    costs.slices.back().transfer =
        transfer_time(profile, boundary_bytes(plan.model, part, plan.microbatch_size));
  }
  sum_slices(costs);
  return costs;
}

}  // namespace tandem
