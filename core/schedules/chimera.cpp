// Chimera (SC 2021, arXiv 2107.06925): pipelines in both directions over as many copies of the
// model, so that one is busy where another would wait. More pairs of them, each begun further round
// the devices, leave less to wait for and hold more copies.

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

std::optional<std::string> reject_chimera(const ScheduleRequest& request) {
  const std::int32_t ways = request.directions;
  if (ways < 2 || ways % 2 != 0) {
    return fmt::format(
        "chimera needs an even number of directions, half of them each way, found {}", ways);
  }
  return uneven_share("chimera", ways, request);
}

// In units of p microbatches, an equal share each direction. With a slot for each forward and each
// backward no two ops of a device meet in one; a unit begins 2p slots after the one before. So m
// microbatches take 2m + 2p/n − 2 slots in n directions; with B = 2F the same order has more holes.
Schedule make_chimera(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule(request, bidirectional_placement(request.devices, request.directions));
  const std::int32_t p = request.devices, ways = request.directions, of_unit = p / ways;
  Table<DeviceId, std::vector<std::pair<std::int32_t, Op>>> slots(request.devices);
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    const auto stage = static_cast<std::int32_t>(index(schedule.placement.stage[replica]));
    const auto direction = static_cast<std::int32_t>(index(replica)) / p;
    auto& here = slots[schedule.placement.device[replica]];
    for (std::int32_t i = 0; i < request.microbatches / ways; ++i) {
      const std::int32_t start = i / of_unit * 2 * p + i % of_unit * 2;
      const std::int32_t microbatch = i * ways + direction;
      here.emplace_back(start + stage, forward(replica, microbatch));
      here.emplace_back(start + 2 * p - 1 - stage, backward(replica, microbatch));
    }
  }
  for (const DeviceId device : ids(slots)) {
    std::sort(slots[device].begin(), slots[device].end());
    for (const auto& [slot, op] : slots[device]) schedule.order[device].push_back(op);
  }
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
