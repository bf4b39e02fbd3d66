#pragma once
// Small programs and their timelines for tests of traces/: built without lower() and the simulator,
// so that a change there doesn't move a picture here.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/program/program.h"
#include "core/program/timeline.h"
#include "traces/chrome/timeline_file.h"

namespace tandem::testing {

/// The instructions of `order` (computation, per device) and a transfer, on a lane of both devices,
/// for each edge. REQUIRES: the order can run.
Program tiny_program(std::string name, std::int32_t microbatches, Placement placement,
                     const std::vector<std::vector<Op>>& order);

/// 1F1B with a flush, one stage a device; every stage updates after its last backward.
Program tiny_1f1b(std::uint16_t devices, std::int32_t microbatches);
/// 2BW: forwards run ahead by the devices behind, weights one update stale.
Program tiny_2bw(std::uint16_t devices, std::int32_t microbatches);

using OpCost = std::function<Duration(const Op&)>;

/// When each instance of `batches` batches runs: as early as its lanes and waits let it.
Timeline tiny_timeline(const Program& program, std::int64_t batches, const OpCost& cost);

/// The cost of each kind the same everywhere; updates cost `update`, transfers `transfer`.
struct TinyCosts {
  Duration forward{}, backward{}, backward_weight{}, transfer{}, update{};
  Duration operator()(const Op& op) const;
};
/// As papers draw them: a backward takes two forwards, all else nothing.
inline constexpr TinyCosts kUnitCosts{.forward = std::chrono::milliseconds(1),
                                      .backward = std::chrono::milliseconds(2),
                                      .backward_weight = std::chrono::milliseconds(1)};

/// What reading a trace of the timeline should give: a record for each lane of an instance. A
/// transfer that holds no lane is recorded once, on the sender, as if on its send lane.
TimelineRecords records_of(const Program& program, const Timeline& timeline);

}  // namespace tandem::testing
