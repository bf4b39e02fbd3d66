#pragma once
// 1F1B as Megatron-LM runs it: each exchange with a neighbour holds the device until both are there
// and what both send has arrived. Written from that description alone, so that a replay of it can
// be held to what it says.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/recording.h"
#include "tests/support/recordings.h"

namespace tandem::testing {

/// Of an op of a stage and microbatch; of transfers the sender's stage.
using MegatronCosts = std::function<Duration(OpKind, std::size_t stage, std::int64_t microbatch)>;

class MegatronPipeline {
 public:
  /// `pauses`: of a device's host before what it does next, by how much it has done; none: none.
  MegatronPipeline(std::size_t stages, std::int64_t microbatches, MegatronCosts costs,
                   std::function<Duration(std::size_t stage, std::size_t done)> pauses = {})
      : stages_(stages), costs_(std::move(costs)), pauses_(std::move(pauses)), devices_(stages) {
    for (std::size_t stage = 0; stage < stages; ++stage) plan(stage, microbatches);
  }

  /// `ahead`: how far the clock of each rank is ahead; none: not at all.
  RecordedPass run(std::int64_t step = 0, std::int64_t replica = 0, Duration begin = {},
                   std::vector<Duration> ahead = {}) {
    ahead_ = std::move(ahead);
    ahead_.resize(stages_);
    RecordedPass pass{.step = step, .replica = replica, .devices = {}};
    pass.devices.resize(stages_);
    for (Device& device : devices_) device.now = begin;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_; ++stage) {
        while (advance(stage, pass.devices[id_at<DeviceId>(stage)])) moved = true;
      }
    }
    for (const Device& device : devices_) EXPECT_EQ(device.next, device.plan.size());
    sort_by_end(pass);
    return pass;
  }

 private:
  /// A computation, or one end of a transfer.
  struct Part {
    OpKind kind = OpKind::forward;
    bool receives = false;
    std::int64_t microbatch = 0;
  };
  using Group = std::vector<Part>;  // begun together
  struct Device {
    std::vector<Group> plan;
    std::size_t next = 0, paused = 0;  // of its plan: to be done, and the host's pauses before
    Duration now{};
  };
  using Transfer = std::tuple<OpKind, std::size_t, std::int64_t>;
  struct Ends {
    std::optional<Duration> sends, receives;  // when each came
  };

  void plan(std::size_t stage, std::int64_t microbatches) {
    std::vector<Group>& plan = devices_[stage].plan;
    const auto exchange = [&](std::optional<Part> one, std::optional<Part> other = {}) {
      Group group;
      for (const std::optional<Part>& part : {one, other}) {
        if (part) group.push_back(*part);
      }
      if (!group.empty()) plan.push_back(group);
    };
    const auto end = [&](OpKind kind, bool receives, std::int64_t microbatch) {
      const bool upwards = (kind == OpKind::send_activation) == receives;
      const bool alone = upwards ? stage == 0 : stage + 1 == stages_;
      return alone ? std::optional<Part>() : Part{kind, receives, microbatch};
    };
    const auto down = [&](bool receives, std::int64_t i) {
      return end(OpKind::send_activation, receives, i);
    };
    const auto up = [&](bool receives, std::int64_t i) {
      return end(OpKind::send_gradient, receives, i);
    };
    const auto ahead =
        std::min<std::int64_t>(microbatches, static_cast<std::int64_t>(stages_ - 1 - stage));
    for (std::int64_t i = 0; i < ahead; ++i) {
      exchange(down(true, i));
      plan.push_back({{OpKind::forward, false, i}});
      exchange(down(false, i));
    }
    if (ahead < microbatches) exchange(down(true, ahead));
    for (std::int64_t i = ahead; i < microbatches; ++i) {
      plan.push_back({{OpKind::forward, false, i}});
      exchange(down(false, i), up(true, i - ahead));
      plan.push_back({{OpKind::backward, false, i - ahead}});
      const bool last = i + 1 == microbatches;
      exchange(up(false, i - ahead), last ? std::nullopt : down(true, i + 1));
    }
    for (std::int64_t i = microbatches - ahead; i < microbatches; ++i) {
      exchange(up(true, i));
      plan.push_back({{OpKind::backward, false, i}});
      exchange(up(false, i));
    }
  }

  Transfer transfer_of(std::size_t stage, const Part& part) const {
    const bool down = part.kind == OpKind::send_activation;
    const std::size_t sender = !part.receives ? stage : down ? stage - 1 : stage + 1;
    return {part.kind, sender, part.microbatch};
  }

  /// False: the device waits, or is done.
  bool advance(std::size_t stage, std::vector<RecordedOp>& ops) {
    Device& device = devices_[stage];
    if (device.next == device.plan.size()) return false;
    const Group& group = device.plan[device.next];
    if (device.paused == device.next && pauses_) {
      device.now += pauses_(stage, device.next);
      ++device.paused;
    }
    if (!is_transfer(group.front().kind)) {
      const Part& part = group.front();
      const Duration end = device.now + costs_(part.kind, stage, part.microbatch);
      ops.push_back({.kind = part.kind,
                     .microbatch = part.microbatch,
                     .start = device.now + ahead_[stage],
                     .end = end + ahead_[stage]});
      device.now = end;
      ++device.next;
      return true;
    }
    bool both_there = true;
    for (const Part& part : group) {
      Ends& ends = ends_[transfer_of(stage, part)];
      std::optional<Duration>& own = part.receives ? ends.receives : ends.sends;
      if (!own) own = device.now;
      both_there = both_there && ends.sends && ends.receives;
    }
    if (!both_there) return false;
    for (const Part& part : group) {
      const Transfer transfer = transfer_of(stage, part);
      const Ends& ends = ends_[transfer];
      const Duration end = std::max(*ends.sends, *ends.receives) + std::apply(costs_, transfer);
      // As publishers cut it: from the later of both clocks' readings on.
      const std::size_t sender = std::get<1>(transfer);
      const bool down = part.kind == OpKind::send_activation;
      const std::size_t receiver = down ? sender + 1 : sender - 1;
      ops.push_back(
          {.kind = part.kind,
           .receives = part.receives,
           .start = std::max(*ends.sends + ahead_[sender], *ends.receives + ahead_[receiver]),
           .end = end + ahead_[stage]});
      device.now = std::max(device.now, end);
    }
    ++device.next;
    return true;
  }

  std::size_t stages_;
  MegatronCosts costs_;
  std::function<Duration(std::size_t, std::size_t)> pauses_;
  std::vector<Device> devices_;
  std::map<Transfer, Ends> ends_;
  std::vector<Duration> ahead_;
};

/// From the first start to the last end of a computation.
inline Duration phase_of(const RecordedPass& pass) {
  Duration start = Duration::max(), end = Duration::min();
  for (const std::vector<RecordedOp>& ops : pass.devices) {
    for (const RecordedOp& op : ops) {
      if (is_transfer(op.kind)) continue;
      start = std::min(start, op.start);
      end = std::max(end, op.end);
    }
  }
  return end - start;
}

}  // namespace tandem::testing
