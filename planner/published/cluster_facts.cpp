#include "planner/published/cluster_facts.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "simulator/cost/analytic_slices.h"
#include "simulator/cost/cluster_costs.h"
#include "simulator/cost/transformer_share.h"

namespace tandem {

namespace {

constexpr double kNoWire = 1e12;  // bytes/s where nothing is to be sent

}  // namespace

ClusterFacts::ClusterFacts(const ClusterQuestion& question)
    : question_(question),
      assumptions_(assumptions_of(question, {})),
      ways_(std::make_shared<ClusterWays>(*question.base.cluster)),
      devices_(static_cast<std::int32_t>(question.devices())) {
  const Cluster& cluster = *question.base.cluster;
  std::size_t in_first = 0;
  for (std::size_t device = 0; device < cluster.size(); ++device) {
    const DeviceId id = id_at<DeviceId>(device);
    in_first += cluster.node(id) == 0 ? 1 : 0;
    if (!(cluster[id] == cluster[DeviceId{}]) ||
        cluster.node_kind(id) != cluster.node_kind(DeviceId{})) {
      throw InputError(
          fmt::format("{}: published planners take devices and nodes of one kind", cluster.name()));
    }
  }
  a_node_ = std::min(static_cast<std::int32_t>(in_first), devices_);
}

StageBytes ClusterFacts::whole(std::int32_t microbatch_size) const {
  const Plan of = plan(microbatch_size);
  return analytic_stage_bytes(of.model, {0, static_cast<std::int32_t>(layers_of(of.model).size())},
                              microbatch_size, of.optimizer, Recompute::none, assumptions_);
}

std::vector<std::int32_t> ClusterFacts::microbatch_sizes() const {
  std::vector<std::int32_t> sizes;
  for (std::int32_t size = 1; size <= kMostMicrobatchSize; ++size) {
    if (question_.global_batch % size != 0 || size != question_.microbatch_size.value_or(size))
      continue;
    try {
      whole(size);
    } catch (const InputError&) {
      break;  // larger ones take more
    }
    sizes.push_back(size);
  }
  return sizes;
}

double ClusterFacts::state_share() const {
  const StageBytes all = whole(1);
  return static_cast<double>(all[SlotKind::gradients] + all.optimizer) /
         static_cast<double>(all[SlotKind::weights]);
}

Bytes ClusterFacts::memory() const {
  return assumptions_.reserve.usable((*question_.base.cluster)[DeviceId{}].memory_bytes);
}

Plan ClusterFacts::plan(std::int32_t microbatch_size) const {
  ClusterShape shape;
  shape.schedule = &find_schedule("1f1b");
  shape.frame.microbatch_size = microbatch_size;
  return plan_of(question_, shape);
}

LayerTimes ClusterFacts::times(std::int32_t microbatch_size,
                               const AnalyticAssumptions& assumptions) const {
  const ClusterLayout layout(ways_, 1, 1, DeviceOrder::replicas_first,
                             static_cast<std::size_t>(assumptions.tensor));
  return layers_alone(plan(microbatch_size), layout, assumptions, DeviceId{});
}

double ClusterFacts::rate(DeviceId from, DeviceId to) const {
  const Calibration constants = constants_of(assumptions_, (*question_.base.cluster)[DeviceId{}]);
  const Route& route = ways_->between(from, to);
  const bool between = question_.base.cluster->node(from) != question_.base.cluster->node(to);
  return route.bytes_per_s * (between ? constants.network_fraction : constants.link_fraction);
}

LayerGraph ClusterFacts::graph(std::int32_t microbatch_size) const {
  const Plan plan = this->plan(microbatch_size);
  const auto layers = static_cast<std::int32_t>(layers_of(plan.model).size());
  const std::vector<StageTimes> each = times(microbatch_size, assumptions_).each_of({0, layers});
  const Bytes boundary = boundary_bytes(plan.model, microbatch_size, bytes_of(assumptions_.format));
  LayerGraph graph;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const StageBytes bytes = analytic_stage_bytes(plan.model, {layer, layer + 1}, microbatch_size,
                                                  plan.optimizer, Recompute::none, assumptions_);
    const auto place = static_cast<std::size_t>(layer);
    graph.layers.push_back({.name = fmt::format("layer{}", layer),
                            .what = {},
                            .forward = each[place].forward,
                            .backward = each[place].backward,
                            .output = boundary,
                            .parameters = bytes[SlotKind::weights],
                            .held = static_cast<Bytes>(bytes.framework.all)});
    if (layer > 0) graph.edges.emplace_back(place - 1, place);
  }
  return graph;
}

std::vector<PipeDreamLevel> ClusterFacts::levels() const {
  std::vector<PipeDreamLevel> levels{
      {a_node_, a_node_ == 1 ? kNoWire : rate(DeviceId{}, id_at<DeviceId>(1))}};
  if (devices_ == a_node_) return levels;
  if (devices_ % a_node_ != 0) {
    throw InputError(fmt::format("{} devices of nodes of {}: PipeDream's planner takes whole nodes",
                                 devices_, a_node_));
  }
  const auto next = id_at<DeviceId>(static_cast<std::size_t>(a_node_));
  levels.push_back({devices_ / a_node_, rate(DeviceId{}, next)});
  return levels;
}

TwoBwQuestion ClusterFacts::two_bw() const {
  const ModelSpec& model = question_.base.plan.model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const StageBytes all = whole(1);
  const auto last = id_at<DeviceId>(question_.base.cluster->size() - 1);
  TwoBwQuestion asked{
      .global_batch = question_.global_batch,
      .devices = devices_,
      .devices_a_node = a_node_,
      .blocks = model.blocks,
      .microbatch_sizes = microbatch_sizes(),
      .within_bytes_per_s = a_node_ == 1 ? kNoWire : rate(DeviceId{}, id_at<DeviceId>(1)),
      .between_bytes_per_s = devices_ == a_node_ ? kNoWire : rate(DeviceId{}, last),
      .memory_bytes = static_cast<double>(memory()),
      .weight_bytes = static_cast<double>(all[SlotKind::weights]),
      .other_bytes = static_cast<double>(all[SlotKind::gradients] + all.optimizer),
      .flushes = question_.vanilla_only,
      .work = {}};
  asked.work = [this, layers](std::int32_t size) {
    const LayerGraph graph = this->graph(size);
    const auto seconds = [&](std::int32_t from, std::int32_t to) {
      double sum = 0.0;
      for (std::int32_t layer = from; layer < to; ++layer) {
        const ProfiledLayer& of_layer = graph.layers[static_cast<std::size_t>(layer)];
        sum += to_seconds(of_layer.forward + of_layer.backward);
      }
      return sum;
    };
    return TwoBwWork{.block_s = seconds(1, layers - 1) / question_.base.plan.model.blocks,
                     .first_s = seconds(0, 1),
                     .last_s = seconds(layers - 1, layers),
                     .boundary_bytes = static_cast<double>(graph.layers.front().output),
                     .activation_bytes = whole(size).framework.all};
  };
  return asked;
}

std::vector<std::int32_t> ClusterFacts::tensors() const {
  std::vector<std::int32_t> degrees;
  for (std::int32_t tensor = 1; tensor <= a_node_; ++tensor) {
    if (a_node_ % tensor != 0) continue;
    try {
      check_tensor(question_.base.plan.model, assumptions_of(question_, {.tensor = tensor}));
      check_whole_matrices(question_.base.plan.optimizer,
                           assumptions_of(question_, {.tensor = tensor}));
    } catch (const ShapeError&) {
      continue;
    }
    degrees.push_back(tensor);
  }
  return degrees;
}

std::vector<std::int32_t> ClusterFacts::piper_layers() const {
  const ModelSpec& model = question_.base.plan.model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const std::int32_t of_block = (layers - 2) / model.blocks;
  std::vector<std::int32_t> begins{0};
  for (std::int32_t layer = 1; layer < layers - 1; layer += of_block) begins.push_back(layer);
  begins.push_back(layers - 1);
  begins.push_back(layers);
  return begins;
}

PiperDegree ClusterFacts::piper_degree(std::int32_t tensor, std::int32_t microbatch_size) const {
  const AnalyticAssumptions assumptions = assumptions_of(question_, {.tensor = tensor});
  const Plan plan = this->plan(microbatch_size);
  const std::vector<std::int32_t> begins = piper_layers();
  const std::vector<StageTimes> each =
      times(microbatch_size, assumptions).each_of({0, begins.back()});
  const double boundary = static_cast<double>(
      boundary_bytes(plan.model, microbatch_size, bytes_of(assumptions.format)));
  PiperDegree degree{.tensor = tensor, .layers = {}};
  for (std::size_t place = 0; place + 1 < begins.size(); ++place) {
    const LayerRange range{begins[place], begins[place + 1]};
    const StageBytes bytes = analytic_stage_bytes(plan.model, range, microbatch_size,
                                                  plan.optimizer, Recompute::none, assumptions);
    double forward = 0.0, backward = 0.0;
    for (std::int32_t layer = range.first; layer < range.last; ++layer) {
      forward += to_seconds(each[static_cast<std::size_t>(layer)].forward);
      backward += to_seconds(each[static_cast<std::size_t>(layer)].backward);
    }
    const bool is_block = place > 0 && place + 2 < begins.size();
    const auto weights = static_cast<double>(bytes[SlotKind::weights]);
    const double versions = question_.vanilla_only ? 1.0 : 2.0;  // as 2BW's
    PiperLayer layer{
        .modes = {},
        .parameter_bytes = weights,
        .state_bytes =
            versions * weights + static_cast<double>(bytes[SlotKind::gradients] + bytes.optimizer)};
    layer.modes[0] = {forward + backward, bytes.framework.all, 0.0};
    layer.modes[1] = layer.modes[0];
    if (is_block) layer.modes[1] = {2.0 * forward + backward, boundary, bytes.framework.all};
    degree.layers.push_back(layer);
  }
  return degree;
}

PiperQuestion ClusterFacts::piper(std::int32_t microbatch_size) const {
  PiperQuestion asked{.degrees = {},
                      .boundary_bytes = {},
                      .devices = devices_,
                      .microbatches = question_.global_batch / microbatch_size,
                      .bytes_per_s = kNoWire,
                      .memory_bytes = static_cast<double>(memory())};
  for (const std::int32_t tensor : tensors())
    asked.degrees.push_back(piper_degree(tensor, microbatch_size));
  const auto boundary = static_cast<double>(
      boundary_bytes(question_.base.plan.model, microbatch_size, bytes_of(assumptions_.format)));
  asked.boundary_bytes.assign(piper_layers().size() - 1, boundary);
  asked.boundary_bytes.front() = 0.0;
  if (devices_ > a_node_)
    asked.bytes_per_s = rate(DeviceId{}, id_at<DeviceId>(static_cast<std::size_t>(a_node_)));
  else if (a_node_ > 1)
    asked.bytes_per_s = rate(DeviceId{}, id_at<DeviceId>(1));
  return asked;
}

TeraPipeQuestion ClusterFacts::terapipe() const {
  if (assumptions_.measured)
    throw InputError("the profile times whole sequences: TeraPipe's planner asks for their parts");
  return {.global_batch = question_.global_batch,
          .devices = devices_,
          .blocks = question_.base.plan.model.blocks,
          .tensors = tensors(),
          .microbatch_sizes = microbatch_sizes(),
          .slices = [this](const TeraPipePlan& of) {
            const AnalyticAssumptions assumptions =
                assumptions_of(question_, {.tensor = of.tensor});
            const Plan plan = this->plan(of.microbatch_size);
            const ClusterLayout layout(
                ways_, static_cast<std::size_t>(of.width), static_cast<std::size_t>(of.depth),
                DeviceOrder::replicas_first, static_cast<std::size_t>(of.tensor));
            return fastest_slices_of(plan.model, of.tensor, of.depth, of.microbatches,
                                     analytic_slice_time(plan, layout, assumptions, of.depth));
          }};
}

}  // namespace tandem
