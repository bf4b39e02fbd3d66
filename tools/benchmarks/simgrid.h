#pragma once
// The same pipeline in SimGrid: a host and an actor a device, a link each way between neighbours,
// actors that compute for as long and send as much as ours.

#include <optional>

#include "core/base/units.h"
#include "core/program/timeline.h"
#include "core/schedule/schedule.h"
#include "simulator/contention/network.h"

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

/// A program over a network in SimGrid, an actor a lane, beside a timeline of ours.
struct PeerComparison {
  double makespan_s = 0.0;
  double apart_s = 0.0;  // the most that an end of an instance differs
  double run_s = 0.0;    // processor time
};

/// REQUIRES: `ours` has all instances of a run of `batches` batches, on lanes all; a flow's weight
/// is one over its latency in seconds wherever flows of unlike latencies meet, as in CM02. Empty
/// where this was built without SimGrid.
std::optional<PeerComparison> compare_with_simgrid(const Program& program, const CostTable& costs,
                                                   const Network& network, const Timeline& ours);

}  // namespace tandem::benchmarks
