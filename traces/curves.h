#pragma once
// Quantities that a timeline implies, as step curves: what a trace's counters show.

#include <cstdint>
#include <vector>

#include "core/base/table.h"
#include "core/memory/memory.h"
#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem {

/// `value` holds from `time` until the next step. Times ascend strictly and values change at each
/// step.
struct Step {
  Duration time{};
  std::int64_t value = 0;
  friend bool operator==(const Step&, const Step&) = default;
};
using Curve = std::vector<Step>;

struct Curves {
  Table<DeviceId, Curve>
      in_flight;  // microbatches of all its stages, from forward to the last gradient op
  Table<DeviceId, Curve>
      activation_bytes;  // stashes: from forward, or recompute where there is one, and before it
                         // what later slices read; evicted ones are with the partner, and on both
                         // devices while they move
  Table<ReplicaId, Curve>
      versions;  // of the weights: the newest, and those that will be read again
};

/// Every curve starts with a step at 0. Of a microbatch whose backward did not run the activations
/// stay to the end. REQUIRES: `timeline` belongs to `program`; `stash_bytes` is empty (no bytes are
/// known) or has a row a stage.
Curves curves_of(const Program& program, const Timeline& timeline,
                 const OfSlices<StashBytes>& stash_bytes);

/// peak_held() in time, rounded to bytes: `all` from the forward, whether or not it is recomputed,
/// `after_input` from the input-gradient to the weight-gradient. Where nothing is evicted no device
/// ever holds more than its peak, and in a run long enough it comes to hold that.
Table<DeviceId, Curve> held_over_time(const Program& program, const Timeline& timeline,
                                      const OfSlices<HeldActivation>& held);

/// The largest value of a curve.
std::int64_t peak_of(const Curve& curve);

}  // namespace tandem
