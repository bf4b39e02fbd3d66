#include "core/schedules/v_grid.h"

#include <array>

#include "core/schedules/common.h"

namespace tandem {

VSource source_of(std::size_t device, VOp leg, std::size_t devices) {
  const bool enters = device == (is_down(leg) ? 0 : devices - 1);
  if (!enters) return {is_down(leg) ? device - 1 : device + 1, leg};
  return {device, leg == VOp::forward_down ? VOp::idle : static_cast<VOp>(index(leg) - 1)};
}

void fill_with_weights(VRow& row) {
  const auto last = std::find_if(row.rbegin(), row.rend(), is_weight);
  const std::size_t kept = static_cast<std::size_t>(row.rend() - last);
  std::ptrdiff_t down = 0, up = 0;  // backwards without one
  for (std::size_t slot = 0; slot < row.size(); ++slot) {
    VOp& op = row[slot];
    down += (op == VOp::backward_down) - (op == VOp::weight_down);
    up += (op == VOp::backward_up) - (op == VOp::weight_up);
    if (op != VOp::idle || slot < kept || (down <= 0 && up <= 0)) continue;
    op = down > 0 ? VOp::weight_down : VOp::weight_up;
    --(down > 0 ? down : up);
  }
  for (; down > 0; --down) row.push_back(VOp::weight_down);
  for (; up > 0; --up) row.push_back(VOp::weight_up);
}

void remove_weights(VRow& row) { std::replace_if(row.begin(), row.end(), is_weight, VOp::idle); }

VGrid squeezed(const VGrid& grid, std::int32_t microbatches) {
  const std::size_t devices = grid.size(), m = static_cast<std::size_t>(microbatches);
  VGrid result(devices);
  std::vector<std::array<std::size_t, kVOps>> counts(devices);
  std::vector<std::size_t> places(devices * kVLegs * m);
  const auto place = [&](std::size_t device, VOp leg, std::size_t microbatch) -> std::size_t& {
    return places[(device * kVLegs + index(leg)) * m + microbatch];
  };
  each_op(grid, [&](std::size_t device, std::size_t slot) {
    const VOp op = grid[device][slot];
    VRow& row = result[device];
    const std::size_t microbatch = counts[device][index(op)]++;
    if (is_leg(op)) {
      const VSource source = source_of(device, op, devices);
      const bool waits = source.op != VOp::idle;
      const std::size_t ready = waits ? place(source.device, source.op, microbatch) + 1 : 0;
      row.resize(std::max(row.size(), ready), VOp::idle);
      place(device, op, microbatch) = row.size();
    }
    row.push_back(op);
  });
  return result;
}

std::int32_t peak_of(const VRow& row) {
  std::int32_t held = 0, peak = 0;
  for (const VOp op : row) {
    if (is_weight(op)) --held;
    if (is_forward(op)) peak = std::max(peak, ++held);
  }
  return peak;
}

std::int32_t highest_peak(const VGrid& grid) {
  std::int32_t peak = 0;
  for (const VRow& row : grid) peak = std::max(peak, peak_of(row));
  return peak;
}

Schedule schedule_of_grid(const ScheduleRequest& request, const VGrid& grid, bool split) {
  Schedule schedule = empty_schedule(request, v_placement(request.devices));
  const std::int32_t m = request.microbatches;
  for (const DeviceId device : ids(schedule.order)) {
    const std::vector<ReplicaId> replicas = schedule.placement.replicas_on(device);
    std::array<std::int32_t, kVOps> counts{};
    std::vector<Op>& ops = schedule.order[device];
    ops.reserve(static_cast<std::size_t>(m) * (split ? 6 : 4) + 2);
    for (const VOp op : grid[index(device)]) {
      if (op == VOp::idle || (is_weight(op) && !split)) continue;
      const bool second =
          op == VOp::forward_up || op == VOp::backward_down || op == VOp::weight_down;
      const ReplicaId replica = replicas[second ? 1 : 0];
      const std::int32_t microbatch = counts[index(op)]++;
      ops.push_back(is_weight(op)    ? backward_weight(replica, microbatch)
                    : is_forward(op) ? forward(replica, microbatch)
                    : split          ? backward_input(replica, microbatch)
                                     : backward(replica, microbatch));
    }
    for (const ReplicaId replica : replicas) ops.push_back(update(replica, m - 1, m));
  }
  return schedule;
}

}  // namespace tandem
