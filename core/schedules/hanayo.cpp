// Hanayo (SC 2023, arXiv 2308.15762): microbatches walk down the devices and back up, a wave, as
// often as asked, each turn a chunk of its own; whole backwards, one copy of the weights. The
// paper's own order is not known to us: here each device does what is furthest along. At m = p the
// bubble is 6, 3.25 and 1.63 forwards of a device for 1, 2 and 4 waves on 4 devices (1F1B: 9), at
// m = 2p 8.5, 6.5 and 3.4, and devices hold up to 2p − 1 (tests/simulator/family_test.cpp).

#include <array>
#include <limits>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

namespace {

/// Devices that take, whenever they are free, a backward if one is ready, of the earliest stage;
/// else a forward, of the latest. A forward takes 1, a backward 2.
class Waves {
 public:
  explicit Waves(Schedule& schedule)
      : schedule_(schedule), m_(schedule.microbatches), free_(schedule.placement.devices, 0) {
    for (const DeviceId device : ids(schedule.order))
      replicas_.push_back(schedule.placement.replicas_on(device));
    const std::size_t cells = schedule.placement.replicas() * static_cast<std::size_t>(m_);
    forward_end_.assign(cells, kNever);
    backward_end_.assign(cells, kNever);
    next_.resize(schedule.placement.replicas());
  }

  void make() {
    std::size_t left = 2 * forward_end_.size();
    wake(schedule_.placement.device[ReplicaId{}], 0);
    for (now_ = 0; left > 0; ++now_) {
      for (const DeviceId device : std::exchange(woken_[now_ % 3], {})) {
        if (free_[device] <= now_ && (go_back(device) || go_forward(device))) --left;
      }
    }
  }

 private:
  static constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  struct Next {
    std::int32_t forward = 0, backward = 0;
  };

  /// Lets the device look for work at a time, at most 2 from now.
  void wake(DeviceId device, std::int32_t time) { woken_[time % 3].push_back(device); }

  /// An op starts now: its device is busy with it, and then its replica and the neighbours may
  /// have more to do.
  std::int32_t start(const Op& op, std::int32_t length) {
    const std::int32_t end = now_ + length;
    const std::size_t replica = index(op.replica);
    const Table<ReplicaId, DeviceId>& device = schedule_.placement.device;
    schedule_.order[device[op.replica]].push_back(op);
    free_[device[op.replica]] = end;
    for (std::size_t near = replica == 0 ? 0 : replica - 1; near <= replica + 1; ++near) {
      if (near < device.size()) wake(device[id_at<ReplicaId>(near)], end);
    }
    return end;
  }

  std::size_t cell(std::size_t replica, std::int32_t microbatch) const {
    return replica * static_cast<std::size_t>(m_) + static_cast<std::size_t>(microbatch);
  }

  bool go_back(DeviceId device) {
    for (const ReplicaId replica : replicas_[device]) {
      std::int32_t& k = next_[replica].backward;
      const bool last = index(replica) + 1 == next_.size();
      if (k == m_ || forward_end_[cell(index(replica), k)] > now_) continue;
      if (!last && backward_end_[cell(index(replica) + 1, k)] > now_) continue;
      backward_end_[cell(index(replica), k)] = start(backward(replica, k), 2);
      ++k;
      return true;
    }
    return false;
  }

  bool go_forward(DeviceId device) {
    const std::vector<ReplicaId>& replicas = replicas_[device];
    for (auto replica = replicas.rbegin(); replica != replicas.rend(); ++replica) {
      std::int32_t& k = next_[*replica].forward;
      const bool first = index(*replica) == 0;
      if (k == m_ || (!first && forward_end_[cell(index(*replica) - 1, k)] > now_)) continue;
      forward_end_[cell(index(*replica), k)] = start(forward(*replica, k), 1);
      ++k;
      return true;
    }
    return false;
  }

  Schedule& schedule_;
  const std::int32_t m_;
  std::int32_t now_ = 0;
  Table<DeviceId, std::int32_t> free_;          // from when on
  std::array<std::vector<DeviceId>, 3> woken_;  // of a time, modulo 3
  Table<DeviceId, std::vector<ReplicaId>> replicas_;
  std::vector<std::int32_t> forward_end_, backward_end_;  // of a stage and a microbatch
  Table<ReplicaId, Next> next_;                           // microbatches
};

}  // namespace

std::optional<std::string> reject_hanayo(const ScheduleRequest& request) {
  if (request.chunks % 2 == 0) return std::nullopt;
  return fmt::format("hanayo has two stages on each device for each wave, found {} chunks: take {}",
                     request.chunks, request.chunks + 1);
}

Schedule make_hanayo(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, wave_placement(request.devices, request.chunks));
  Waves(schedule).make();
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
