// 1F1B that never drains and keeps no version for a microbatch: a forward and a backward each read
// the newest weights of their stage (PACI, arXiv 2606.07881). Each stage counts its own backwards
// and updates after every m-th. The backward goes by the activations that the forward left and by
// weights that may be newer, so that what it makes is the gradient of no one version. PipeMare
// (arXiv 1910.05124) corrects those newer weights by how weights changed before. SpecTrain
// (1809.02839), PipeOptim (2312.00839) and XPipe (1911.04610) predict weights: a pass reads them as
// they will be some updates later, if each is as the last one was.

#include <cmath>

#include "core/schedules/all.h"
#include "core/schedules/common.h"

namespace tandem {

/// Updates of a stage between the version that is newest as the forward of microbatch `k` runs,
/// `ahead` backwards before its own, and the version that its backward finds.
static std::uint16_t forward_staleness(std::int32_t k, std::int32_t ahead, std::int32_t m) {
  return static_cast<std::uint16_t>((ahead - k % m + m - 1) / m);
}

Schedule make_latest(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request, linear_placement(request.devices));
  schedule.version_rule = VersionRule::newest;
  const std::int32_t m = request.microbatches;
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    std::vector<Op>& order = schedule.order[schedule.placement.device[replica]];
    const auto ahead = static_cast<std::int32_t>(request.devices - 1 - index(replica));
    order.reserve(2 * static_cast<std::size_t>(m) + 1);
    for (std::int32_t i = 0; i < m; ++i) {
      const std::int32_t next = i + ahead;
      order.push_back(forward(replica, next, forward_staleness(next, ahead, m)));
      order.push_back(backward(replica, i));
    }
    order.push_back(update(replica, m - 1, m));
  }
  return schedule;
}

namespace {

/// Backwards of other microbatches on stage s of p from a forward to its own backward.
std::int32_t ahead_of(const ScheduleRequest& request, std::int32_t stage) {
  return request.devices - 1 - stage;
}

/// Adds what `reading_of` says of each stage.
template <class ReadingOf>
Schedule with_readings(Schedule schedule, const ScheduleRequest& request,
                       const ReadingOf& reading_of) {
  for (std::int32_t stage = 0; stage < request.devices; ++stage)
    schedule.readings.push_back(reading_of(stage));
  return schedule;
}

/// Updates of a stage in which it runs so many backwards.
double updates_in(const ScheduleRequest& request, std::int32_t backwards) {
  return static_cast<double>(backwards) / request.microbatches;
}

}  // namespace

// The mean over the microbatches of an update of the updates between a forward's version and its
// backward's is exactly the forwards ahead divided by m.
Schedule make_pipemare(const ScheduleRequest& request) {
  return with_readings(make_latest(request), request, [&](std::int32_t stage) {
    const std::int32_t ahead = ahead_of(request, stage);
    const std::int32_t backwards = request.published_delays ? 2 * ahead + 1 : ahead;
    Reading reading{.delay = updates_in(request, backwards)};
    if (reading.corrects()) reading.kept = std::pow(request.correction_decay, 1.0 / reading.delay);
    return reading;
  });
}

// A microbatch's forward on the first stage and its last backward are the furthest apart: all its
// passes read the weights of about the same time in between, ⌊s/2⌋ backwards after their own.
Schedule make_spectrain(const ScheduleRequest& request) {
  return with_readings(make_latest(request), request, [&](std::int32_t stage) {
    return Reading{.forward_horizon = updates_in(request, stage / 2 + ahead_of(request, stage)),
                   .backward_horizon = updates_in(request, stage / 2)};
  });
}

Schedule make_spectrain_v2(const ScheduleRequest& request) {
  Schedule schedule = with_readings(make_latest(request), request, [&](std::int32_t stage) {
    const double horizon = updates_in(request, ahead_of(request, stage));
    return Reading{.forward_horizon = horizon, .backward_horizon = horizon};
  });
  schedule.version_rule = VersionRule::same;
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    for (Op& op : schedule.order[schedule.placement.device[replica]]) {
      if (op.kind != OpKind::backward) continue;
      op.staleness = forward_staleness(op.microbatch,
                                       ahead_of(request, static_cast<std::int32_t>(index(replica))),
                                       request.microbatches);
    }
  }
  return schedule;
}

Schedule make_pipeoptim(const ScheduleRequest& request) {
  return with_readings(make_latest(request), request, [&](std::int32_t stage) {
    return Reading{.forward_horizon = updates_in(request, ahead_of(request, stage))};
  });
}

// All forwards of an update read one prediction, of the version that its first one finds.
Schedule make_xpipe(const ScheduleRequest& request) {
  const std::int32_t m = request.microbatches, p = request.devices;
  // Halves away from 0; the source does not say.
  const auto updates = [m](std::int32_t backwards) {
    return std::round(static_cast<double>(backwards) / m);
  };
  Schedule schedule = with_readings(make_latest(request), request, [&](std::int32_t stage) {
    const double forward = updates(p + m - (stage + 1) / 2 - 2);
    return Reading{.forward_horizon = forward,
                   .backward_horizon = updates(m + stage / 2 - 1),
                   .shares_prediction = forward > 0.0};
  });
  for (const ReplicaId replica : ids(schedule.placement.device)) {
    const auto ahead = ahead_of(request, static_cast<std::int32_t>(index(replica)));
    for (Op& op : schedule.order[schedule.placement.device[replica]]) {
      if (op.kind == OpKind::forward) op.staleness = forward_staleness(0, ahead, m);
    }
  }
  return schedule;
}

}  // namespace tandem
