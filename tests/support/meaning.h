#pragma once
// An oracle of simulated time that knows neither lower() nor the simulated machine: it unrolls a
// schedule into one graph of all ops of a run, by what the schedule means, and takes longest paths.

#include <cstdint>
#include <map>
#include <tuple>

#include "core/lower/lower.h"
#include "core/program/cost.h"
#include "core/program/timeline.h"
#include "core/schedule/schedule.h"

namespace tandem::testing {

/// What ran: a kind on a stage for a microbatch of the run; for a transfer the sender's, and to
/// which device.
using OpKey = std::tuple<OpKind, ReplicaId, std::int64_t, DeviceId>;

struct Times {
  Duration start{}, end{};
  friend auto operator<=>(const Times&, const Times&) = default;
};

/// Start and end of every op of `batches` batches. Where the order of sums on a device is a free
/// choice it is taken from `program`; all else comes from the schedule.
std::map<OpKey, Times> times_by_meaning(const Schedule& schedule, const Program& program,
                                        TransferLanes lanes, const CostModel& model,
                                        std::int64_t batches);

/// The same map of a recorded run.
std::map<OpKey, Times> times_of(const Program& program, const Timeline& timeline);

}  // namespace tandem::testing
