// Several chunks of the model on each device, stage s on device s mod p: interleaved 1F1B
// (Megatron-LM, arXiv 2104.04473 §2.2), the same with backward split in two (PyTorch's
// ScheduleInterleavedZeroBubble), and looped BFS (Lamy-Poirier, MLSys 2023). Of slices of sequences
// interleaved 1F1B is Seq1F1B-I (arXiv 2406.03488), its groups counted in slices.

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
  const auto m = static_cast<std::int32_t>(request.units());
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
  const auto m = static_cast<std::int32_t>(request.units());
  const std::int32_t p = request.devices;
  return m <= group || request.chunks == 1 || (group >= p && (m % group == 0 || m % group >= p));
}

/// The group asked for, or the smallest that works from as many microbatches as devices, or all,
/// on: PyTorch's where that divides the batch. Of whole microbatches.
std::int32_t group_of(const ScheduleRequest& request) {
  if (request.group > 0) return request.group;
  auto group = static_cast<std::int32_t>(std::min<std::int64_t>(request.devices, request.units()));
  while (!works(request, group)) group += request.slices.count;
  return group;
}

ReplicaId replica_of(const ScheduleRequest& request, std::size_t device, std::int32_t chunk) {
  return id_at<ReplicaId>(device + static_cast<std::size_t>(chunk) * request.devices);
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

std::optional<std::string> reject_sliced_interleaved(const ScheduleRequest& request) {
  const std::int32_t n = request.slices.count;
  if (request.devices % n == 0) return std::nullopt;
  return fmt::format(
      "seq1f1b-i needs devices divisible by the slices of a sequence, found {} and {}: chunks "
      "change every {} slices, and a microbatch's last slice must come before that to go back "
      "first",
      request.devices, n, request.devices);
}

/// Forwards ahead of backwards by the visits that fill the pipeline. A backward in two halves lets
/// the device before go on sooner, so that each device is ahead of the next by half as much; the
/// weight gradients of device d follow d visits behind.
Schedule make_interleaved(const ScheduleRequest& request, bool splits) {
  Schedule schedule = empty_schedule(request, looped_placement(request.devices, request.chunks));
  const std::vector<Visit> order = visits(request, group_of(request));
  const std::int32_t n = request.slices.count;
  const std::size_t count = order.size();
  for (std::size_t device = 0; device < request.devices; ++device) {
    std::vector<Op>& ops = schedule.order[id_at<DeviceId>(device)];
    const std::size_t behind = request.devices - 1 - device;
    const std::size_t ahead = std::min(count, (splits ? 1 : 2) * behind +
                                                  static_cast<std::size_t>(request.chunks - 1) *
                                                      static_cast<std::size_t>(group_of(request)) +
                                                  static_cast<std::size_t>(n - 1));
    const auto go_back = [&](auto op, const Visit& visit) {
      const std::int32_t chunk = request.chunks - 1 - visit.chunk;
      ops.push_back(op(replica_of(request, device, chunk), backward_turn(visit.microbatch, n)));
    };
    const auto whole = [](ReplicaId replica, std::int32_t i) { return backward(replica, i); };
    for (std::size_t i = 0; i < count + ahead; ++i) {
      if (i < count)
        ops.push_back(forward(replica_of(request, device, order[i].chunk), order[i].microbatch));
      if (i < ahead) continue;
      if (!splits) {
        go_back(whole, order[i - ahead]);
        continue;
      }
      go_back(backward_input, order[i - ahead]);
      if (i >= ahead + device) go_back(backward_weight, order[i - ahead - device]);
    }
    for (std::size_t i = count - std::min(count, device); splits && i < count; ++i)
      go_back(backward_weight, order[i]);
  }
  append_updates(schedule);
  return schedule;
}

Schedule make_looped_bfs(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, looped_placement(request.devices, request.chunks));
  const std::int32_t m = request.microbatches;
  for (std::size_t device = 0; device < request.devices; ++device) {
    std::vector<Op>& ops = schedule.order[id_at<DeviceId>(device)];
    for (std::int32_t chunk = 0; chunk < request.chunks; ++chunk) {
      const ReplicaId replica = replica_of(request, device, chunk);
      for (std::int32_t i = 0; i < m; ++i) ops.push_back(forward(replica, i));
    }
    for (std::int32_t chunk = request.chunks; chunk-- > 0;) {
      const ReplicaId replica = replica_of(request, device, chunk);
      for (std::int32_t i = m; i-- > 0;) ops.push_back(backward(replica, i));
    }
  }
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
