#pragma once
// simulate(): a program and its prices → time, bubbles and use of each device, exact for a run of
// any length.

#include <cstdint>
#include <optional>

#include "core/memory/memory.h"
#include "simulator/compiled/steady_state.h"

namespace tandem {

struct DeviceUse {
  Duration busy{};    // compute lane occupied
  Duration bubble{};  // makespan − busy
  Duration
      exposed_communication{};    // compute lane idle while the transfer or sum it waits for runs
  double peak_activations = 0.0;  // core/memory/memory.h, peak_activations()
  std::int32_t weight_versions = 1;
};

struct SimulationResult {
  Duration makespan{};  // start of the first op to the end of the last, all devices
  Duration span{};  // longest (last end − first start) of any one device: the metric of zero-bubble
                    // papers
  Duration ideal{};  // forward + backward of the busiest device over all batches, recomputation not
                     // counted
  Duration cycle{};  // λ of the endless run
  std::int64_t cycle_batches = 1;  // c
  std::int64_t steady_from_batch = 0;
  bool exact_cycle =
      true;  // false: no repetition was seen, and `cycle` is the maximum cycle ratio, rounded
  Table<DeviceId, DeviceUse> devices;
  std::optional<Timeline> timeline;  // only when asked for

  double period_s() const { return to_seconds(cycle) / static_cast<double>(cycle_batches); }
};

struct SimulationRequest {
  std::int64_t batches = 1;
  bool record = false;                  // keep the timeline: every op of the run, so for short runs
  double activation_after_input = 1.0;  // G/A, see peak_activations()
};

/// Fills in what the tallies of a whole run say: all but the endless run and the timeline.
void set_devices(const Program& program, const DeviceTallies& tallies,
                 double activation_after_input, SimulationResult& result);

/// A million batches cost no more than the transient, one cycle and the end.
/// Throws InputError when the run would last longer than 292 years.
SimulationResult simulate(const Program& program, const CostTable& costs,
                          const SimulationRequest& request);

}  // namespace tandem
