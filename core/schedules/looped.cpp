// Several chunks of the model on each device, stage s on device s mod p: interleaved 1F1B
// (Megatron-LM, arXiv 2104.04473 §2.2), the same with backward split in two (PyTorch's
// ScheduleInterleavedZeroBubble), and looped BFS (Lamy-Poirier, MLSys 2023).

#include <utility>

#include <fmt/format.h>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// A microbatch on a chunk of its device.
struct Visit {
  std::int32_t chunk = 0, microbatch = 0;
};

/// Microbatches a group at a time, each group through one chunk after the other; the last group may
/// be smaller. Backwards visit the chunks in reverse.
std::vector<Visit> visits(const ScheduleRequest& request, std::int32_t group) {
  std::vector<Visit> order;
  const std::int32_t m = request.microbatches;
  for (std::int32_t first = 0; first < m; first += group) {
    for (std::int32_t chunk = 0; chunk < request.chunks; ++chunk) {
      for (std::int32_t i = first; i < std::min(first + group, m); ++i) order.push_back({chunk, i});
    }
  }
  return order;
}

/// A last group smaller than the devices would have the forwards of one chunk wait for backwards
/// that come after them: Megatron-LM refuses the same.
bool works(const ScheduleRequest& request, std::int32_t group) {
  const std::int32_t m = request.microbatches, p = request.devices;
  return m <= group || request.chunks == 1 || (group >= p && (m % group == 0 || m % group >= p));
}

/// The group asked for, or the smallest that works: as many microbatches as devices where that
/// divides the batch.
std::int32_t group_of(const ScheduleRequest& request) {
  if (request.group > 0) return request.group;
  std::int32_t group = request.devices;
  while (!works(request, group)) ++group;
  return group;
}

StageId stage_of(const ScheduleRequest& request, std::size_t device, std::int32_t chunk) {
  return id_at<StageId>(device + static_cast<std::size_t>(chunk) * request.devices);
}

void append_updates(const ScheduleRequest& request, std::size_t device, std::vector<Op>& order) {
  for (std::int32_t chunk = 0; chunk < request.chunks; ++chunk) {
    order.push_back(
        update(stage_of(request, device, chunk), request.microbatches - 1, request.microbatches));
  }
}

}  // namespace

std::optional<std::string> reject_interleaved(const ScheduleRequest& request) {
  if (request.group < 0) return fmt::format("a group can't be negative, found {}", request.group);
  if (request.group == 0 || works(request, request.group)) return std::nullopt;
  ScheduleRequest any = request;
  any.group = 0;
  return fmt::format(
      "interleaved would deadlock with groups of {} for {} microbatches on {} devices: each group, "
      "the last one too, needs as many microbatches as there are devices, such as groups of {}",
      request.group, request.microbatches, request.devices, group_of(any));
}

Schedule make_interleaved(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("interleaved", request, looped_placement(request.devices, request.chunks));
  const std::vector<Visit> order = visits(request, group_of(request));
  const std::size_t count = order.size();
  for (std::size_t device = 0; device < request.devices; ++device) {
    std::vector<Op>& ops = schedule.order[id_at<DeviceId>(device)];
    const std::size_t behind = request.devices - 1 - device;
    const std::size_t ahead =
        std::min(count, 2 * behind + static_cast<std::size_t>(request.chunks - 1) *
                                         static_cast<std::size_t>(group_of(request)));
    const auto go_forward = [&](const Visit& visit) {
      ops.push_back(forward(stage_of(request, device, visit.chunk), visit.microbatch));
    };
    const auto go_back = [&](const Visit& visit) {
      const std::int32_t chunk = request.chunks - 1 - visit.chunk;
      ops.push_back(backward(stage_of(request, device, chunk), visit.microbatch));
    };
    for (std::size_t i = 0; i < ahead; ++i) go_forward(order[i]);
    for (std::size_t i = ahead; i < count; ++i) {
      go_forward(order[i]);
      go_back(order[i - ahead]);
    }
    for (std::size_t i = count - ahead; i < count; ++i) go_back(order[i]);
    append_updates(request, device, ops);
  }
  return schedule;
}

// Half as many forwards ahead as interleaved; the weight gradients of device d follow d visits
// behind.
Schedule make_interleaved_zero_bubble(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("interleaved-zb", request, looped_placement(request.devices, request.chunks));
  const std::vector<Visit> order = visits(request, group_of(request));
  const std::size_t count = order.size();
  for (std::size_t device = 0; device < request.devices; ++device) {
    std::vector<Op>& ops = schedule.order[id_at<DeviceId>(device)];
    const std::size_t ahead = std::min(count, request.devices - 1 - device +
                                                  static_cast<std::size_t>(request.chunks - 1) *
                                                      static_cast<std::size_t>(group_of(request)));
    const auto back_stage = [&](const Visit& visit) {
      return stage_of(request, device, request.chunks - 1 - visit.chunk);
    };
    const auto weigh = [&](const Visit& visit) {
      ops.push_back(backward_weight(back_stage(visit), visit.microbatch));
    };
    for (std::size_t i = 0; i < count + ahead; ++i) {
      if (i < count) {
        ops.push_back(forward(stage_of(request, device, order[i].chunk), order[i].microbatch));
      }
      if (i < ahead) continue;
      ops.push_back(backward_input(back_stage(order[i - ahead]), order[i - ahead].microbatch));
      if (i >= ahead + device) weigh(order[i - ahead - device]);
    }
    for (std::size_t i = count - std::min(count, device); i < count; ++i) weigh(order[i]);
    append_updates(request, device, ops);
  }
  return schedule;
}

Schedule make_looped_bfs(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("looped-bfs", request, looped_placement(request.devices, request.chunks));
  const std::int32_t m = request.microbatches;
  for (std::size_t device = 0; device < request.devices; ++device) {
    std::vector<Op>& ops = schedule.order[id_at<DeviceId>(device)];
    for (std::int32_t chunk = 0; chunk < request.chunks; ++chunk) {
      for (std::int32_t i = 0; i < m; ++i) {
        ops.push_back(forward(stage_of(request, device, chunk), i));
      }
    }
    for (std::int32_t chunk = request.chunks; chunk-- > 0;) {
      for (std::int32_t i = m; i-- > 0;) {
        ops.push_back(backward(stage_of(request, device, chunk), i));
      }
    }
    append_updates(request, device, ops);
  }
  return schedule;
}

}  // namespace tandem
