// Three probes: no schedules for use, but shapes that the types, lower(), verify() and the
// simulator must hold, kept honest from the start — replicated stages in round robin, two chunks a
// device in a V, two directions over the same parts.

#include <fmt/format.h>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

constexpr const char* kNoTies = "replicated stages with tied embeddings are not in this version";

/// PipeDream's replicas when none are asked for: 2-1-1, the example of its paper.
std::vector<std::uint16_t> replicas_or_default(const ScheduleRequest& request) {
  return request.replicas.empty() ? std::vector<std::uint16_t>{2, 1, 1} : request.replicas;
}

}  // namespace

std::optional<std::string> reject_replicated_probe(const ScheduleRequest& request) {
  if (request.tied_embeddings) return kNoTies;
  std::int32_t devices = 0;
  for (const std::uint16_t replicas : replicas_or_default(request)) {
    if (replicas == 0) return "a part needs at least one replica";
    devices += replicas;
    if (request.microbatches % replicas != 0) {
      return fmt::format(
          "round robin over {} replicas needs microbatches divisible by {}, found {}", replicas,
          replicas, request.microbatches);
    }
  }
  if (devices == request.devices) return std::nullopt;
  return fmt::format("the replicas of all parts together are {} devices, but {} are given", devices,
                     request.devices);
}

// Each part runs 1F1B without flush over its own microbatches, replica j of R taking those with k
// mod R = j, and updates after each round of its replicas. In flight a replica holds what the parts
// behind it take to send the gradient back, one more than the published warm-up: without it 2-1-1
// runs at a period of 9 instead of 6 (facts: schedules §9).
Schedule make_replicated_probe(const ScheduleRequest& request) {
  const std::vector<std::uint16_t> replicas = replicas_or_default(request);
  Schedule schedule = empty_schedule("probe-replicated", request, replicated_placement(replicas));
  const std::int32_t m = request.microbatches;
  std::int32_t devices_behind = request.devices;
  std::size_t stage_index = 0;
  for (const std::uint16_t width : replicas) {
    devices_behind -= width;
    const std::int32_t ahead = (devices_behind + width - 1) / width;  // rounds
    for (std::int32_t replica = 0; replica < width; ++replica, ++stage_index) {
      const StageId stage = id_at<StageId>(stage_index);
      std::vector<Op>& order = schedule.order[schedule.placement.device[stage]];
      const auto staleness = static_cast<std::uint16_t>(ahead);
      for (std::int32_t round = 0; round < m / width; ++round) {
        order.push_back(forward(stage, (round + ahead) * width + replica, staleness));
        order.push_back(backward(stage, round * width + replica, staleness));
        order.push_back(update(stage, round * width + width - 1, width));
      }
    }
  }
  return schedule;
}

// Every microbatch runs down the devices and back up before its backward; forwards first, as in
// GPipe.
Schedule make_v_probe(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule("probe-v", request, v_placement(request.devices));
  const std::int32_t m = request.microbatches;
  for (const DeviceId device : ids(schedule.order)) {
    const std::vector<StageId> stages = schedule.placement.stages_on(device);
    std::vector<Op>& order = schedule.order[device];
    for (const StageId stage : stages) {
      for (std::int32_t i = 0; i < m; ++i) order.push_back(forward(stage, i));
    }
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
      for (std::int32_t i = 0; i < m; ++i) order.push_back(backward(*stage, i));
    }
    for (const StageId stage : stages) order.push_back(update(stage, m - 1, m));
  }
  return schedule;
}

std::optional<std::string> reject_bidirectional_probe(const ScheduleRequest& request) {
  if (request.tied_embeddings) return kNoTies;
  if (request.devices < 2 || request.devices % 2 != 0) {
    return fmt::format("two directions need an even number of devices, found {}", request.devices);
  }
  if (request.microbatches % 2 != 0) {
    return fmt::format("two directions need an even number of microbatches, found {}",
                       request.microbatches);
  }
  return std::nullopt;
}

// The first half of the microbatches goes down, the second up; on each device the chain that is
// nearer to its end of the pipeline goes first, so that both directions advance.
Schedule make_bidirectional_probe(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("probe-bidirectional", request, bidirectional_placement(request.devices));
  const std::int32_t half = request.microbatches / 2;
  const std::size_t p = request.devices;
  for (std::size_t device = 0; device < p; ++device) {
    std::vector<Op>& order = schedule.order[id_at<DeviceId>(device)];
    const StageId down = id_at<StageId>(device), up = id_at<StageId>(p + (p - 1 - device));
    const bool down_first = device < p / 2;
    const StageId first = down_first ? down : up, second = down_first ? up : down;
    const std::int32_t first_start = down_first ? 0 : half, second_start = half - first_start;
    for (std::int32_t i = 0; i < half; ++i) order.push_back(forward(first, first_start + i));
    for (std::int32_t i = 0; i < half; ++i) order.push_back(forward(second, second_start + i));
    for (std::int32_t i = 0; i < half; ++i) order.push_back(backward(second, second_start + i));
    for (std::int32_t i = 0; i < half; ++i) order.push_back(backward(first, first_start + i));
    for (const StageId stage : {down, up}) {
      order.push_back(update(stage, request.microbatches - 1, request.microbatches));
    }
  }
  return schedule;
}

}  // namespace tandem
