#pragma once
// The same pipeline in SimGrid: a host and an actor a device, a link each way between neighbours,
// actors that compute for as long and send as much as ours.

#include <optional>

#include "core/schedule.h"
#include "core/units.h"

namespace tandem::benchmarks {

struct PeerTimes {
  Duration forward{}, backward{}, update{}, transfer{};
};

struct PeerRun {
  double makespan_s = 0.0;
  double build_s = 0.0;  // processor time: platform and actors
  double run_s = 0.0;    // and the simulation
};

/// One batch of `schedule`, a stage a device in a line. Empty where this was built without SimGrid.
std::optional<PeerRun> run_simgrid(const Schedule& schedule, const PeerTimes& times);

}  // namespace tandem::benchmarks
