#pragma once
// Production timelines as text, an event a line, in the form in which they are published.

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/recording.h"

namespace tandem::testing {

inline std::string timeline_event(std::string_view name, int pid, int tid, double start_ms,
                                  double length_ms, int step, int chunk, int microbatch) {
  return fmt::format(
      R"({{"name": "{}", "cat": "{}", "pid": {}, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, )"
      R"("ph": "X", "args": {{"step": {}, "model_chunk": {}, "mb_id": {}, "seq_id": 0}}}})",
      name, name, pid, tid, 1000 * start_ms, 1000 * length_ms, step, chunk, microbatch);
}

/// As the publisher writes it: the names of threads and processes last.
inline std::string timeline_text(const Recording& recording) {
  std::vector<std::string> events;
  const auto in_ms = [](Duration duration) {
    return std::chrono::duration<double, std::milli>(duration).count();
  };
  for (const RecordedPass& pass : recording.passes) {
    const int pid = static_cast<int>(pass.replica);
    for (const DeviceId device : ids(pass.devices)) {
      const int tid = 10 * static_cast<int>(index(device)) + 5 * pid;
      for (const RecordedOp& op : pass.devices[device]) {
        const bool down = op.kind == OpKind::forward || op.kind == OpKind::send_activation;
        const bool transfer = is_transfer(op.kind);
        events.push_back(timeline_event(fmt::format("{}-{}", down ? "forward" : "backward",
                                                    !transfer     ? "compute"
                                                    : op.receives ? "recv"
                                                                  : "send"),
                                        pid, tid + (transfer ? 1 : 0), in_ms(op.start),
                                        in_ms(op.end - op.start), static_cast<int>(pass.step),
                                        transfer ? -1 : op.chunk, static_cast<int>(op.microbatch)));
      }
    }
  }
  for (const std::int64_t replica : recording.replicas) {
    for (int device = 0; device < recording.devices; ++device) {
      for (const int stream : {0, 1}) {
        events.push_back(fmt::format(R"({{"name": "thread_name", "pid": {}, "tid": {}, "ph": "M", )"
                                     R"("args": {{"name": "PP rank {}, TP rank 0, {}"}}}})",
                                     replica, 10 * device + 5 * replica + stream, device,
                                     stream ? "pp-comm" : "compute"));
      }
    }
    events.push_back(fmt::format(
        R"({{"name": "process_name", "pid": {0}, "ph": "M", "args": {{"name": "DP rank [{0}]"}}}})",
        replica));
  }
  return fmt::format("[{}]\n", fmt::join(events, ",\n"));
}

}  // namespace tandem::testing
