#pragma once
// write_chrome_trace(): timelines as Chrome trace JSON, which chrome://tracing and Perfetto open.
// A process a device, a thread a lane, a slice an instruction; times are microseconds.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "core/base/table.h"
#include "core/memory/memory.h"
#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem {

/// Bytes for the memory counters.
struct TraceMemory {
  Table<DeviceId, MemoryByClass>
      devices;  // what is allocated; its activations are not drawn, but the curve of stashes
  OfSlices<StashBytes> stash;                      // of one microbatch, or slice
  std::optional<OfSlices<HeldActivation>> held{};  // in its place, where it is freed in parts
};

/// One timeline of the file: that of one simulated or measured run.
struct TraceRun {
  const Timeline* timeline = nullptr;
  std::string label{};  // names its processes, "label: device 0"; empty: "simulated" or "measured",
                        // by its clock
  std::optional<TraceMemory> memory{};
};

/// What a file holds beside the slices.
struct TraceOptions {
  std::string tool = "tandem";                 // with its version, such as "tandem 0.1.0"
  std::map<std::string, std::string> about{};  // anything worth keeping: command, plan, machine
  std::optional<std::int64_t>
      base_time_ns{};  // the absolute moment of time 0, nanoseconds since 1970
  bool flows = true;
  bool counters = true;
  std::stop_token stop{};  // gives up, throws Interrupted and leaves no file
};

/// Writes `runs` of one program into one file, streamed: `.json`, or `.json.gz` by its name. The
/// file appears whole or not at all. Throws DeviceError with path and reason when it can't be
/// written. REQUIRES: every run has a timeline of `program`, and labels differ (checked).
void write_chrome_trace(const std::filesystem::path& path, const Program& program,
                        std::span<const TraceRun> runs, const TraceOptions& options = {});

}  // namespace tandem
