#pragma once
// Recording: some steps of another system's pipeline, as its ranks saw them. Importers fill it
// (traces/recorded/recorded_pipeline.h), the replay reads it (simulator/replay/replay.h).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/table.h"
#include "core/base/units.h"
#include "core/schedule/op.h"

namespace tandem {

/// A computation, or one end of a transfer, by the clock of its rank.
struct RecordedOp {
  OpKind kind{};                 // forward, backward or its halves, send_activation, send_gradient
  bool receives = false;         // of a transfer: the receiver's end
  std::uint16_t chunk = 0;       // which of its device's stages; of a transfer without a number: 0
  std::int64_t microbatch = -1;  // as the recorder counts; −1: it does not say
  // A recorder may give both ends of a transfer the later of their two starts, by that rank's
  // clock: by the other's a transfer may then end before it starts.
  Duration start{}, end{};
};

/// One step of one replica.
struct RecordedPass {
  std::int64_t step = 0, replica = 0;                // as the recorder counts
  Table<DeviceId, std::vector<RecordedOp>> devices;  // each by ascending ends
};

/// Chunk c of device d is stage c · devices + d of the model; with `wave`, that of every other
/// chunk counted from the last device.
struct Recording {
  std::uint16_t devices = 1, chunks = 1;
  std::size_t ranks = 1;               // that did a device's work together, the most of any
  std::vector<std::int64_t> replicas;  // ascending
  std::vector<RecordedPass> passes;    // by step, then replica
  std::map<std::int64_t, Duration>
      whole_steps;           // with all that is not pipeline: sums, optimizer, …
  bool wave = false;         // chunks go down the devices and back up, as in a V
  bool own_streams = false;  // of transfers: they go on beside computation
  std::vector<std::string> warnings;
};

}  // namespace tandem
