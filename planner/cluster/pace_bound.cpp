#include "planner/cluster/pace_bound.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/memory/recomputed_layers.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

namespace {

constexpr double kJustBelowPace = 1.0 - 1e-6;  // rounding of nanoseconds, many of which are added

/// Groups of devices that share layers, one of each kind, by their first device.
std::vector<DeviceId> kinds_of_groups(const Cluster& cluster, std::int32_t tensor) {
  std::set<std::pair<std::size_t, const DeviceSpec*>> seen;
  std::vector<DeviceId> groups;
  for (std::size_t first = 0; first + static_cast<std::size_t>(tensor) <= cluster.size();
       first += static_cast<std::size_t>(tensor)) {
    const DeviceId device = id_at<DeviceId>(first);
    if (seen.insert({cluster.node_kind(device), &cluster[device]}).second) groups.push_back(device);
  }
  return groups;
}

/// Of so many blocks the input of one stays.
double blocks_made_again_together(Recompute recompute) {
  return recompute.kind == Recompute::Kind::uniform ? std::max<double>(1.0, recompute.count) : 1.0;
}

}  // namespace

PaceBound::PaceBound(const ClusterQuestion& question, std::shared_ptr<ClusterWays> ways)
    : question_(question),
      ways_(std::move(ways)),
      usable_(static_cast<double>(most_usable(question))),
      memory_(question) {}

double PaceBound::of(const ClusterShape& shape) {
  const ClusterFrame& frame = shape.frame;
  const auto [place, unknown] =
      known_.try_emplace({frame.tensor, frame.microbatch_size, frame.slices, frame.recompute});
  if (unknown) place->second = stay(frame);
  const Stay& of = place->second;
  // One device may have an embedding alone, one the head.
  const int with_blocks = std::max(0, frame.depth - 2);
  const double room = frame.depth * usable_ - memory_.lasting(shape) - with_blocks * of.workspace;
  if (room <= 0.0) return std::numeric_limits<double>::infinity();
  const double area = sketches_.of(*shape.schedule).whole ? of.whole : of.halves;
  return frame.microbatches * area / room * kJustBelowPace;
}

PaceBound::Stay PaceBound::stay(const ClusterFrame& frame) const {
  // What is left of a stage that is made again whole depends on the cut.
  if (frame.recompute == Recompute::stage) return {};
  Plan plan = question_.base.plan;
  plan.microbatch_size = frame.microbatch_size;
  plan.request.slices.count = frame.slices;
  std::vector<SequencePart> parts = sequence_parts(plan.request.slices, plan.model);
  if (parts.empty()) parts.emplace_back();
  Stay stay;
  try {
    for (const SequencePart part : parts) add_slice(plan, frame, part, stay);
  } catch (const InputError&) {
    return {};  // more bytes than are counted at once
  }
  return stay;
}

PaceBound::LayerNeeds PaceBound::needs(const Plan& plan, const ClusterFrame& frame,
                                       SequencePart part) const {
  const AnalyticAssumptions assumptions = assumptions_of(question_, frame);
  const std::vector<LayerKind> kinds = layers_of(plan.model);
  const auto layers = static_cast<std::int32_t>(kinds.size());
  const std::vector<SequencePart> parts =
      part.is_whole() ? std::vector<SequencePart>{} : std::vector{part};
  const bool by_block = frame.recompute.by_block();
  const Recompute of_layer = by_block ? Recompute::full : frame.recompute;
  std::array<std::optional<double>, kLayerKinds> known;
  LayerNeeds needs;
  std::vector<double>& kept = needs.kept;
  Bytes least = std::numeric_limits<Bytes>::max();
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    std::optional<double>& bytes = known[static_cast<std::size_t>(kind)];
    if (!bytes) {
      const StageBytes of =
          analytic_stage_bytes(plan.model, {layer, layer + 1}, plan.microbatch_size, plan.optimizer,
                               of_layer, assumptions, 1, parts);
      // tandem's executor has a slot for what is received, not one a microbatch.
      const bool counts_input = layer > 0 && assumptions.fits_by == FitsBy::tandem;
      if (kind == LayerKind::attention || is_mlp(kind)) least = std::min(least, of.workspace);
      bytes = of.framework.all - (counts_input ? static_cast<double>(of[SlotKind::input]) : 0.0);
    }
    kept.push_back(*bytes);
  }
  if (least < std::numeric_limits<Bytes>::max()) needs.workspace = static_cast<double>(least);
  if (!by_block) return needs;
  for (const LayerRange block : recomputed_layers(plan.model, {0, layers}, Recompute::full)) {
    kept[static_cast<std::size_t>(block.first)] /= blocks_made_again_together(frame.recompute);
    for (std::int32_t layer = block.first + 1; layer < block.last; ++layer)
      kept[static_cast<std::size_t>(layer)] = 0.0;
  }
  return needs;
}

void PaceBound::add_slice(const Plan& plan, const ClusterFrame& frame, SequencePart part,
                          Stay& stay) const {
  const AnalyticAssumptions assumptions = assumptions_of(question_, frame);
  Plan timed = plan;
  timed.request.recompute = fewest_made_again(frame.recompute);
  const ClusterLayout layout(ways_, 1, 1, DeviceOrder::replicas_first,
                             static_cast<std::size_t>(frame.tensor));
  std::vector<LayerTimes> groups;
  for (const DeviceId first : kinds_of_groups(ways_->cluster(), frame.tensor))
    groups.push_back(layers_alone(timed, layout, assumptions, first, part));
  const auto [kept, workspace] = needs(plan, frame, part);
  stay.workspace = std::max(stay.workspace, workspace);  // its stages have room for any slice
  double whole = 0.0, halves = 0.0;  // seconds from a layer to the last and back
  for (auto layer = static_cast<std::int32_t>(kept.size()); layer-- > 0;) {
    Duration least_whole = Duration::max(), least_halves = Duration::max();
    for (const LayerTimes& group : groups) {
      const StageTimes times = group.each_of({layer, layer + 1}).front();
      least_whole = std::min(least_whole, times.forward + times.backward);
      least_halves = std::min(least_halves, times.forward + times.backward_input);
    }
    whole += to_seconds(least_whole);
    halves += to_seconds(least_halves);
    stay.whole += kept[static_cast<std::size_t>(layer)] * whole;
    stay.halves += kept[static_cast<std::size_t>(layer)] * halves;
  }
}

}  // namespace tandem
