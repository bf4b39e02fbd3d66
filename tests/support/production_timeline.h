#pragma once
// Production timelines as text, an event a line, in the form in which they are published.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/recording.h"

namespace tandem::testing {

inline std::string timeline_event(std::string_view name, int pid, int tid, double start_ms,
                                  double length_ms, int step, int chunk, int microbatch) {
  return fmt::format(
      R"({{"name": "{}", "cat": "{}", "pid": {}, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, )"
      R"("ph": "X", "args": {{"step": {}, "model_chunk": {}, "mb_id": {}, "seq_id": 0}}}})",
      name, name, pid, tid, 1000 * start_ms, 1000 * length_ms, step, chunk, microbatch);
}

/// What each of a stage's ranks did: of tensor-parallel ones, or context-parallel ones, which have
/// all the same number. As the publisher writes it: the names of threads and processes last.
inline std::string timeline_text(const std::vector<Recording>& ranks, bool numbered = true) {
  std::vector<std::string> events;
  const auto in_ms = [](Duration duration) {
    return std::chrono::duration<double, std::milli>(duration).count();
  };
  const auto thread_of = [](std::size_t rank, std::int64_t replica, DeviceId device) {
    return static_cast<int>(1000 * rank + 10 * index(device)) + static_cast<int>(5 * replica);
  };
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const RecordedPass& pass : ranks[rank].passes) {
      const int pid = static_cast<int>(pass.replica);
      for (const DeviceId device : ids(pass.devices)) {
        const int tid = thread_of(rank, pass.replica, device);
        for (const RecordedOp& op : pass.devices[device]) {
          const bool down = op.kind == OpKind::forward || op.kind == OpKind::send_activation;
          const bool transfer = is_transfer(op.kind);
          events.push_back(timeline_event(fmt::format("{}-{}", down ? "forward" : "backward",
                                                      !transfer     ? "compute"
                                                      : op.receives ? "recv"
                                                                    : "send"),
                                          pid, tid + (transfer ? 1 : 0), in_ms(op.start),
                                          in_ms(op.end - op.start), static_cast<int>(pass.step),
                                          transfer ? -1 : op.chunk,
                                          static_cast<int>(op.microbatch)));
        }
      }
    }
  }
  for (const std::int64_t replica : ranks.front().replicas) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const DeviceId device : all_ids<DeviceId>(ranks.front().devices)) {
        for (const int stream : {0, 1}) {
          events.push_back(
              fmt::format(R"({{"name": "thread_name", "pid": {}, "tid": {}, "ph": "M", )"
                          R"("args": {{"name": "PP rank {}, TP rank {}, {}"}}}})",
                          replica, thread_of(rank, replica, device) + stream, index(device),
                          numbered ? rank : 0, stream ? "pp-comm" : "compute"));
        }
      }
    }
    events.push_back(fmt::format(
        R"({{"name": "process_name", "pid": {0}, "ph": "M", "args": {{"name": "DP rank [{0}]"}}}})",
        replica));
  }
  return fmt::format("[{}]\n", fmt::join(events, ",\n"));
}

inline std::string timeline_text(const Recording& recording) {
  return timeline_text(std::vector<Recording>{recording});
}

}  // namespace tandem::testing
