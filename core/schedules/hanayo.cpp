// Hanayo (SC 2023, arXiv 2308.15762): microbatches walk down the devices and back up, a wave, as
// often as asked, each turn a chunk of its own; whole backwards, one copy of the weights. The
// paper's own order is not known to us: here each device does what is furthest along. At m = p the
// bubble is 6, 3.25 and 1.63 forwards of a device for 1, 2 and 4 waves on 4 devices (1F1B: 9), at
// m = 2p 8.5, 6.5 and 3.4, and devices hold up to 2p − 1 (tests/simulator/family_test.cpp).

#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

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
    for (const DeviceId device : ids(schedule.order)) {
      stages_.push_back(schedule.placement.stages_on(device));
    }
    const std::size_t cells = schedule.placement.stages() * static_cast<std::size_t>(m_);
    forward_end_.assign(cells, kNever);
    backward_end_.assign(cells, kNever);
    next_.resize(schedule.placement.stages());
  }

  void make() {
    std::size_t left = 2 * forward_end_.size();
    wake(schedule_.placement.device[StageId{}], 0);
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

  /// The op that `stage` starts now: its device is busy with it, and then it and its neighbours may
  /// have more to do.
  std::int32_t start(const Op& op, std::int32_t length) {
    const std::int32_t end = now_ + length;
    const std::size_t stage = index(op.stage);
    const Table<StageId, DeviceId>& device = schedule_.placement.device;
    schedule_.order[device[op.stage]].push_back(op);
    free_[device[op.stage]] = end;
    for (std::size_t near = stage == 0 ? 0 : stage - 1; near <= stage + 1; ++near) {
      if (near < device.size()) wake(device[id_at<StageId>(near)], end);
    }
    return end;
  }

  std::size_t cell(std::size_t stage, std::int32_t microbatch) const {
    return stage * static_cast<std::size_t>(m_) + static_cast<std::size_t>(microbatch);
  }

  bool go_back(DeviceId device) {
    for (const StageId stage : stages_[device]) {
      std::int32_t& k = next_[stage].backward;
      const bool last = index(stage) + 1 == next_.size();
      if (k == m_ || forward_end_[cell(index(stage), k)] > now_) continue;
      if (!last && backward_end_[cell(index(stage) + 1, k)] > now_) continue;
      backward_end_[cell(index(stage), k)] = start(backward(stage, k), 2);
      ++k;
      return true;
    }
    return false;
  }

  bool go_forward(DeviceId device) {
    const std::vector<StageId>& stages = stages_[device];
    for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
      std::int32_t& k = next_[*stage].forward;
      const bool first = index(*stage) == 0;
      if (k == m_ || (!first && forward_end_[cell(index(*stage) - 1, k)] > now_)) continue;
      forward_end_[cell(index(*stage), k)] = start(forward(*stage, k), 1);
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
  Table<DeviceId, std::vector<StageId>> stages_;
  std::vector<std::int32_t> forward_end_, backward_end_;  // of a stage and a microbatch
  Table<StageId, Next> next_;                             // microbatches
};

}  // namespace

std::optional<std::string> reject_hanayo(const ScheduleRequest& request) {
  if (request.chunks % 2 == 0) return std::nullopt;
  return fmt::format("hanayo has two stages on each device for each wave, found {} chunks: take {}",
                     request.chunks, request.chunks + 1);
}

Schedule make_hanayo(const ScheduleRequest& request) {
  Schedule schedule =
      empty_schedule("hanayo", request, wave_placement(request.devices, request.chunks));
  Waves(schedule).make();
  append_updates(schedule);
  return schedule;
}

}  // namespace tandem
