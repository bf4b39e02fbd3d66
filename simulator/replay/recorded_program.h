#pragma once
// A recorded step of a pipeline as a program of ours, with a price for each single instruction.

#include <cstdint>
#include <string_view>

#include "core/model/recording.h"
#include "core/program/cost.h"
#include "core/program/program.h"
#include "core/program/timeline.h"
#include "core/schedule/placement.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// How the ranks of a recording wait for one another at a transfer.
enum class RecordedTransfers : std::uint8_t {
  blocking,    // both stop computing and wait for one another: Megatron's synchronous sends
  overlapped,  // it goes on beside the computation, once its sender has computed what it carries
  none,        // takes no time: only the dependency is left
};
std::string_view name(RecordedTransfers transfers);

struct ReplayModel {
  RecordedTransfers transfers = RecordedTransfers::blocking;
  /// With blocking transfers a device goes on as soon as it can: what passes before it does, by its
  /// own clock, is its host's, and belongs to the op that follows; to a transfer what passes once
  /// both its devices could.
  bool pauses = true;
};

/// `overlapped` where transfers have streams of their own, or more than a quarter of them end while
/// their own device computes.
RecordedTransfers seen_transfers(const Recording& recording);

struct RecordedProgram {
  Schedule schedule;  // the order seen, computation only
  Program program;    // the price of instruction i has the id i; one batch
  CostTable costs;    // as measured; of a transfer as the receiver saw it, with both ends ready
  RecordedTransfers transfers = RecordedTransfers::none;  // that the program has
  Timeline measured;           // from the first start on; of transfers the receiver's ends
  Duration start{}, length{};  // first start and last end of what was computed
};

/// Computation in each device's order, dependencies across devices, and transfers as asked; without
/// them where some were not recorded, and overlapped where their order can't be that of blocking
/// ones. Throws InputError when it is no whole pass of a pipeline. REQUIRES: `placement` gives each
/// device of the pass as many stages, more than any chunk of its ops.
RecordedProgram recorded_program(const RecordedPass& pass, const Placement& placement,
                                 const ReplayModel& model);

/// From the start of the first computation to the end of the last. `recorder` may be null.
Duration replayed_length(const Program& program, const CostTable& costs,
                         Timeline* recorder = nullptr);

}  // namespace tandem
