#include "planner/cluster/cluster_space.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/model/transformer_shape.h"
#include "core/schedule/options.h"
#include "simulator/cost/transformer_share.h"

namespace tandem {

namespace {

constexpr std::uint16_t kDeepest = 1024;  // that plan_on_cluster() takes
constexpr std::array<std::uint16_t, 5> kChunks{2, 3, 4, 6, 8};
constexpr std::array<std::int32_t, 3> kSlices{2, 4, 8};

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t one = 1; one <= std::min(number, most); ++one) {
    if (number % one == 0) all.push_back(one);
  }
  return all;
}

/// Devices of each node.
std::vector<std::int64_t> node_sizes(const Cluster& cluster) {
  std::vector<std::int64_t> sizes(cluster.nodes());
  for (std::size_t device = 0; device < cluster.size(); ++device)
    ++sizes[cluster.node(id_at<DeviceId>(device))];
  return sizes;
}

bool takes_slices(const ScheduleTraits& row) {
  return option_of(row, &ScheduleRequest::slices) != nullptr;
}

/// On one device a pipeline is none: data parallelism, and rows whose weights are delayed, so that
/// the sums of gradients overlap.
bool pipelines_nothing(const ScheduleTraits& row, std::uint16_t depth) {
  return depth == 1 && row.only_devices != 1 && row.weights == WeightSemantics::vanilla;
}

std::vector<std::uint16_t> chunk_counts(const ClusterQuestion& question, const ScheduleTraits& row,
                                        std::uint16_t depth) {
  const std::size_t layers = layers_of(question.base.plan.model).size();
  const auto room = [&](std::size_t stages) { return stages * depth <= layers; };
  if (row.replicas_per_device != 0) {
    const std::uint16_t fixed = row.replicas_per_device;
    const bool one = fixed == 1 || (depth > 1 && room(fixed));
    return one ? std::vector<std::uint16_t>{1} : std::vector<std::uint16_t>{};
  }
  const ScheduleOption* option = option_of(row, &ScheduleRequest::chunks);
  std::vector<std::uint16_t> all;
  for (const std::uint16_t chunks : kChunks) {
    if (question.chunks && *question.chunks != chunks) continue;
    if (depth == 1 || !room(chunks) || (option != nullptr && chunks % option->times != 0)) continue;
    all.push_back(chunks);
  }
  if (question.chunks && std::ranges::find(kChunks, *question.chunks) == kChunks.end() &&
      depth > 1 && room(*question.chunks))
    all.push_back(*question.chunks);
  return all;
}

/// Why a schedule can't have as many stages on each device as are asked for. REQUIRES:
/// chunk_counts() finds none.
std::string reason_against_chunks(const ScheduleTraits& row, std::uint16_t chunks,
                                  std::uint16_t depth, const ModelSpec& model) {
  const ScheduleOption* option = option_of(row, &ScheduleRequest::chunks);
  if (option != nullptr && chunks % option->times != 0)
    return fmt::format("{} stages on each device are not a multiple of {}", chunks, option->times);
  return fmt::format("{} stages on each of {} devices: {} has {} layers", chunks, depth, model.name,
                     layers_of(model).size());
}

}  // namespace

std::int64_t ClusterQuestion::devices() const {
  const auto all = static_cast<std::int64_t>(base.cluster->size());
  return most_devices > 0 ? std::min(most_devices, all) : all;
}

ClusterSpace::ClusterSpace(const ClusterQuestion& question) : question_(question) {
  schedules_ = chosen_schedules({.names = question.schedules,
                                 .vanilla_only = question.vanilla_only,
                                 .correction = question.base.plan.optimizer.correction,
                                 .slices_are_priced = !question.base.assumptions.measured},
                                rejected_);
  std::erase_if(schedules_, [&](const ScheduleTraits* row) {
    const std::uint16_t fixed = row->replicas_per_device;
    if (!question.chunks || fixed <= 1 || fixed == *question.chunks) return false;
    rejected_.push_back(
        {RejectCause::schedule, std::string(row->name),
         fmt::format("it has {} stages on each device, not {}", fixed, *question.chunks)});
    return true;
  });
  if (!std::ranges::all_of(schedules_, [](const auto* row) { return takes_slices(*row); }))
    slices_.push_back(1);
  if (std::ranges::any_of(schedules_, [](const auto* row) { return takes_slices(*row); }))
    slices_.insert(slices_.end(), kSlices.begin(), kSlices.end());
  recomputes_ = {Recompute::none, Recompute::selective, Recompute::full};
  if (question.recompute) recomputes_ = {*question.recompute};
  // Its scores are never kept: what is selective saves nothing.
  else if (question.base.assumptions.attention == AttentionKernel::flash)
    std::erase(recomputes_, Recompute::selective);
  if (question.sharded_optimizer) shardings_ = {*question.sharded_optimizer};
  for (const std::int32_t tensor : tensors()) add_frames(tensor);
}

std::vector<std::int32_t> ClusterSpace::tensors() const {
  if (question_.tensor) return {*question_.tensor};
  const std::vector<std::int64_t> sizes = node_sizes(*question_.base.cluster);
  std::vector<std::int32_t> all;
  for (const std::int64_t tensor : divisors(std::ranges::min(sizes), question_.devices())) {
    if (std::ranges::all_of(sizes, [&](std::int64_t size) { return size % tensor == 0; }))
      all.push_back(static_cast<std::int32_t>(tensor));
  }
  return all;
}

void ClusterSpace::add_frames(std::int32_t tensor) {
  ClusterFrame frame{.tensor = tensor};
  try {
    AnalyticAssumptions assumptions = question_.base.assumptions;
    assumptions.tensor = tensor;
    assumptions.sequence_parallel = false;
    check_tensor(question_.base.plan.model, assumptions);
    check_whole_matrices(question_.base.plan.optimizer, assumptions);
  } catch (const ShapeError& error) {
    if (question_.tensor) throw;
    rejected_.push_back(
        {RejectCause::schedule, fmt::format("tensor degree {}", tensor), error.what()});
    return;
  }
  const std::int64_t groups = question_.devices() / tensor;
  const auto deepest = static_cast<std::uint16_t>(
      std::min<std::int64_t>({groups, kDeepest, std::ssize(layers_of(question_.base.plan.model))}));
  for (std::uint16_t depth = 1; depth <= deepest; ++depth) {
    if (question_.depth && *question_.depth != depth) continue;
    frame.depth = depth;
    for (const std::int64_t width : divisors(
             question_.global_batch,
             std::min<std::int64_t>(groups / depth, std::numeric_limits<std::uint16_t>::max()))) {
      if (question_.width && *question_.width != width) continue;
      frame.width = static_cast<std::uint16_t>(width);
      add_batches(frame);
    }
  }
}

void ClusterSpace::add_batches(ClusterFrame frame) {
  const std::int64_t of_pipeline = question_.global_batch / frame.width;
  std::vector<std::int64_t> sizes = divisors(of_pipeline, kMostMicrobatchSize);
  if (question_.microbatch_size) sizes = {*question_.microbatch_size};
  for (const std::int64_t size : sizes) {
    if (of_pipeline % size != 0) continue;
    if (of_pipeline / size > kMostPlannedMicrobatches) continue;
    frame.microbatch_size = static_cast<std::int32_t>(size);
    frame.microbatches = static_cast<std::int32_t>(of_pipeline / size);
    for (const std::int32_t slices : slices_) {
      if (question_.base.plan.model.sequence % (slices * frame.tensor) != 0 && slices > 1) continue;
      if (slices > 1 && (frame.depth == 1 || !shape_of(question_.base.plan.model).causal)) continue;
      frame.slices = slices;
      for (const Recompute recompute : recomputes_) {
        frame.recompute = recompute;
        for (const bool sharded : shardings_) {
          frame.sharded_optimizer = sharded;
          if (!sharded || frame.width > 1) frames_.push_back(frame);
        }
      }
    }
  }
}

std::vector<ClusterShape> ClusterSpace::shapes(const ClusterFrame& frame,
                                               std::vector<Rejected>& rejected) const {
  std::vector<ClusterShape> all;
  for (const ScheduleTraits* row : schedules_) {
    if (takes_slices(*row) != (frame.slices > 1)) continue;
    if (row->only_devices != 0 && row->only_devices != frame.depth) continue;
    if (pipelines_nothing(*row, frame.depth) && question_.schedules.empty()) continue;
    const std::vector<std::uint16_t> counts = chunk_counts(question_, *row, frame.depth);
    if (counts.empty() && question_.chunks && row->replicas_per_device == 0 && frame.depth > 1) {
      rejected.push_back(
          {RejectCause::schedule, describe({frame, row, *question_.chunks}),
           reason_against_chunks(*row, *question_.chunks, frame.depth, question_.base.plan.model)});
    }
    for (const std::uint16_t chunks : counts) {
      const ClusterShape shape{frame, row, chunks};
      if (auto reason = reason_against(*row, schedule_request(plan_of(question_, shape))))
        rejected.push_back({RejectCause::schedule, describe(shape), std::move(*reason)});
      else
        all.push_back(shape);
    }
  }
  return all;
}

std::optional<ClusterShape> ClusterSpace::keeping_less(const ClusterShape& shape) const {
  const Recompute recompute = shape.frame.recompute;
  if (question_.recompute || recompute.kind != Recompute::Kind::uniform) return std::nullopt;
  const auto stages = static_cast<std::int64_t>(stage_count(plan_of(question_, shape)));
  const std::int64_t blocks = question_.base.plan.model.blocks;
  if (recompute.count * stages >= blocks) return std::nullopt;  // all of a stage, in equal ones
  ClusterShape less = shape;
  less.frame.recompute.count = static_cast<std::uint16_t>(2 * recompute.count);
  return less;
}

Recompute fewest_made_again(Recompute recompute) {
  return recompute.kind == Recompute::Kind::blocks ? Recompute::none : recompute;
}

Recompute most_made_again(Recompute recompute) {
  return recompute.kind == Recompute::Kind::blocks ? Recompute::full : recompute;
}

Plan plan_of(const ClusterQuestion& question, const ClusterShape& shape) {
  const ClusterFrame& frame = shape.frame;
  Plan plan{.model = question.base.plan.model,
            .schedule = std::string(shape.schedule->name),
            .microbatch_size = frame.microbatch_size,
            .optimizer = question.base.plan.optimizer};
  ScheduleRequest& request = plan.request;
  if (shape.schedule->replicas_per_device == 0) request.chunks = shape.chunks;
  request.devices = frame.depth;
  request.width = frame.width;
  request.microbatches = frame.microbatches;
  request.recompute = frame.recompute;
  request.slices.count = frame.slices;
  request.global_norm = question.base.plan.request.global_norm;
  return plan;
}

ClusterRequest request_of(const ClusterQuestion& question, const ClusterShape& shape) {
  ClusterRequest request = question.base;
  request.plan = plan_of(question, shape);
  request.assumptions = assumptions_of(question, shape.frame);
  request.order = question.order.value_or(DeviceOrder::replicas_first);
  request.depth = shape.frame.depth;
  request.width = shape.frame.width;
  request.microbatches = std::nullopt;
  request.global_batch = question.global_batch;
  return request;
}

AnalyticAssumptions assumptions_of(const ClusterQuestion& question, const ClusterFrame& frame) {
  AnalyticAssumptions assumptions = question.base.assumptions;
  assumptions.tensor = frame.tensor;
  assumptions.sequence_parallel =
      frame.tensor > 1 &&
      question.base.plan.model.sequence % (std::int64_t{frame.tensor} * frame.slices) == 0;
  assumptions.sharded_optimizer = frame.sharded_optimizer;
  return assumptions;
}

std::string describe(const ClusterShape& shape) {
  const ClusterFrame& frame = shape.frame;
  std::string text = fmt::format("{}, tensor {} x depth {} x width {}", shape.schedule->name,
                                 frame.tensor, frame.depth, frame.width);
  if (shape.chunks > 1) text += fmt::format(", {} chunks", shape.chunks);
  if (frame.slices > 1) text += fmt::format(", {} slices", frame.slices);
  text += fmt::format(", microbatches {} x {}", frame.microbatch_size, frame.microbatches);
  if (frame.recompute != Recompute::none)
    text += fmt::format(", recompute {}", name(frame.recompute));
  if (frame.sharded_optimizer) text += ", ZeRO-1";
  return text;
}

}  // namespace tandem
