#pragma once
// The order in which the devices of a recorded pass computed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/recording.h"
#include "core/schedule/placement.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// What is done for one stage and microbatch, transfers at their sender's stage.
struct RecordedWork {
  OpKind kind{};
  std::size_t stage = 0;
  std::int32_t microbatch = 0;
};

/// Of a device's forwards, or input gradients, by its clock.
struct RecordedExtent {
  Duration last_start = Duration::min(), first_end = Duration::max();
};

struct RecordedOrder {
  std::vector<std::vector<ReplicaId>> replicas;  // of each device, by chunk
  std::vector<std::vector<RecordedWork>> work;  // computation of each device
  std::vector<RecordedExtent> forwards, backwards;
  std::int32_t microbatches = 0;
  std::vector<std::int64_t> numbers;  // the recorder's, of microbatch 0, 1, …; empty: it has none
  Schedule schedule;                  // the same order, and an update at the end
};

/// Microbatches are told by the recorder's numbers where all stages have the same, else by the
/// order on each stage. A backward is whole, or an input gradient with a weight gradient after it.
/// Throws InputError when it is no whole pass of a pipeline. REQUIRES: as recorded_program() of
/// recorded_program.h.
RecordedOrder order_of(const RecordedPass& pass, const Placement& placement);

}  // namespace tandem
