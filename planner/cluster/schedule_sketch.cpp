#include "planner/cluster/schedule_sketch.h"

#include <cstdint>
#include <vector>

namespace tandem {

const ScheduleSketch& ScheduleSketches::of(const ScheduleTraits& row) {
  const auto [place, unknown] = known_.try_emplace(&row);
  ScheduleSketch& of = place->second;
  if (!unknown) return of;
  of.flushes = row.weights == WeightSemantics::vanilla && row.updates_together;
  // A small one shows which backwards it has.
  for (const std::int32_t microbatches : {4, 8, 2}) {
    ScheduleRequest request{.devices = static_cast<std::uint16_t>(row.only_devices == 1 ? 1 : 2),
                            .microbatches = microbatches};
    if (row.replicas_per_device == 0) request.chunks = 2;
    if (reason_against(row, request)) continue;
    of.whole = of.halves = true;
    for (const std::vector<Op>& order : make_schedule(row, request).order) {
      for (const Op& op : order) {
        const OpTraits& kind = traits(op.kind);
        if (!kind.makes_input_gradient && !kind.makes_weight_gradient) continue;
        const bool both = kind.makes_input_gradient && kind.makes_weight_gradient;
        (both ? of.halves : of.whole) = false;
      }
    }
    break;
  }
  return of;
}

}  // namespace tandem
