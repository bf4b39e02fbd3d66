#pragma once
// The result of a simulated run: time, bubbles and use of each device.

#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/program/timeline.h"

namespace tandem {

/// One device's use in the whole run.
struct DeviceUse {
  Duration busy{};                   // compute lane occupied
  Duration bubble{};                 // makespan − busy
  Duration exposed_communication{};  // compute lane idle while the transfer or sum that it waits
                                     // for runs
  double peak_activations = 0.0;     // in activations of a device, see peak_activations()
  std::int32_t weight_versions = 1;  // held at once: 2 for 2BW
};

/// An endless run gets into a steady state: from some batch on all times advance by the same λ each
/// c batches. λ / c is the eigenvalue of the max-plus linear system that a program with its prices
/// is (Baccelli, Cohen, Olsder, Quadrat: Synchronization and Linearity, 1992, chapter 3), the same
/// as the maximum cycle ratio of its waits.
struct SimulationResult {
  Duration makespan{};  // start of the first op to the end of the last, all devices
  Duration span{};      // longest (last end − first start) of any one device: the metric of the
                        // Zero Bubble paper (Qi et al., ICLR 2024)
  Duration ideal{};  // forward + backward of the busiest device over all batches, recomputation not
                     // counted. Bubble rates: (makespan − ideal) / makespan, or / ideal
  Duration cycle{};  // λ of the endless run
  std::int64_t cycle_batches = 1;      // c
  std::int64_t steady_from_batch = 0;  // first batch of the steady state
  bool exact_cycle =
      true;  // false: no repetition was seen, and `cycle` is the maximum cycle ratio, rounded
  Table<DeviceId, DeviceUse> devices;  // a row for each device of the program
  std::optional<Timeline> timeline;    // only when asked for

  /// Mean seconds of a batch of the endless run: λ / c.
  double period_s() const { return to_seconds(cycle) / static_cast<double>(cycle_batches); }
};

}  // namespace tandem
