#pragma once
// How long a batch of an order takes, for schedulers that choose among several.

#include "core/schedule/schedule.h"

namespace tandem {

/// The longest time of a device between its first op's start and its last one's end: the zero
/// bubble papers' metric. At the costs of the request; transfers occupy no link.
/// REQUIRES: a chain of one replica a stage, in the order of the stages; vanilla semantics; an
/// order that does not deadlock.
Duration span_of(const Schedule& schedule, const ScheduleRequest& request);

/// What the busiest device computes in a batch: no order's span is shorter.
Duration longest_work(const Placement& placement, const ScheduleRequest& request);

}  // namespace tandem
