#pragma once
// A timeline as records that stand for themselves: what a trace file holds, and what compare() and
// checks work on.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/program/program.h"
#include "core/program/timeline.h"
#include "traces/chrome/trace_source.h"

namespace tandem {

/// One instruction's instance on one lane. A transfer has a record on the sender's lane and one on
/// the receiver's.
struct TimelineRecord {
  Clock clock = Clock::simulated;
  DeviceId device{};
  LaneKind lane = LaneKind::compute;
  DeviceId peer{};  // of a transfer lane; elsewhere the device itself
  OpKind kind{};
  ReplicaId replica{};          // of a transfer: the sender's
  std::int64_t microbatch = 0;  // from the start of the run
  std::int64_t batch = 0;
  std::int64_t body = 0;
  InstructionId instruction{};
  std::optional<std::int64_t> weight_version{};
  Duration start{}, end{};
  friend auto operator<=>(const TimelineRecord&, const TimelineRecord&) = default;
};
using TimelineRecords = std::vector<TimelineRecord>;

/// One timeline of a file.
struct TimelineRun {
  std::string label;
  Clock clock = Clock::simulated;
  TimelineRecords records;
};

struct TimelineFile {
  std::string tool;
  std::string schedule;
  std::int32_t microbatches = 1;
  std::uint16_t devices = 0;
  std::vector<TimelineRun> runs;
};

/// Reads what write_chrome_trace() wrote, `.json` or `.json.gz`, at most 1 GiB uncompressed. Throws
/// InputError with the place of what is wrong, also for traces of other tools, which hold no
/// timeline of ours.
TimelineFile read_timeline(const TraceSource& source);

}  // namespace tandem
