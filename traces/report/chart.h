#pragma once
// Chart: a timeline as reports draw it — rows, boxes on them, the idle time between, and what each
// device holds. Plain data, by which a program may be forgotten.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"
#include "core/program/timeline.h"
#include "traces/curves.h"

namespace tandem {

/// A lane that is used; its device's compute lane in any case. Transfers that hold no lane have a
/// row of their own on the sender, the only one on which boxes overlap.
struct ChartRow {
  DeviceId device{};
  LaneKind kind = LaneKind::compute;
  std::string title;          // "compute", "send activation to 1", "in transit"
  std::size_t first_box = 0;  // of Chart::boxes; the row's end where the next one begins
};

/// An instance of an instruction on one of its lanes.
struct ChartBox {
  OpKind kind{};
  ReplicaId replica{};
  std::uint16_t chunk = 0;                // which of its device's stages, from 0
  std::int64_t microbatch = 0;            // from the start of the run
  std::optional<std::int64_t> version{};  // of the weights: read, or made by an update
  Duration start{}, end{};
  bool critical = false;  // on a longest path through the run
};

/// A device's compute lane stands still. The idle times and the boxes of the lane make up the run.
struct ChartIdle {
  DeviceId device{};
  Duration start{}, end{};
  // The box for which the next op waited last; none where there is no further op, or where it
  // waited for nothing but its turn.
  std::optional<std::size_t> cause{};
};

/// What the devices hold through the run, in bytes where they are known.
struct ChartMemory {
  Table<DeviceId, MemoryByClass> peak;  // what is allocated, which no moment exceeds
  Table<DeviceId, Curve> activations;   // in use at each time
  std::optional<Table<DeviceId, Bytes>> capacity{};
};

struct Chart {
  std::uint16_t devices = 0;
  Duration start{}, end{};           // of the first op, of the last
  std::uint16_t chunks = 1;          // stages on a device, at most
  bool knows_critical = false;       // which boxes are critical was said
  bool several_versions = false;     // some op reads weights that are not the newest by then
  std::vector<ChartRow> rows;        // by device; its compute lane first
  std::vector<ChartBox> boxes;       // by row, ascending in time
  std::vector<ChartIdle> idle;       // by device, ascending in time
  Table<DeviceId, Curve> in_flight;  // microbatches
  std::optional<ChartMemory> memory{};

  std::size_t row_end(std::size_t row) const {
    return row + 1 < rows.size() ? rows[row + 1].first_box : boxes.size();
  }
};

/// `critical`: of each span, whether it lies on a longest path; empty: nobody knows. REQUIRES:
/// `timeline` belongs to `program`.
Chart chart_of(const Program& program, const Timeline& timeline,
               std::optional<ChartMemory> memory = {}, const std::vector<bool>& critical = {});

}  // namespace tandem
