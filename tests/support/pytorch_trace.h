#pragma once
// Traces as PyTorch's profiler writes them of a rank of torch.distributed.pipelining.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/recording.h"

namespace tandem::testing {

inline std::string pytorch_event(std::string_view category, std::string_view name, int stream,
                                 Duration start, Duration length) {
  const auto us = [](Duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  };
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": {}, "ts": {:.3f}, )"
      R"("dur": {:.3f}, "args": {{"External id": 7}}}})",
      category, name, stream, us(start), us(length));
}

inline std::string pytorch_document(const std::vector<std::string>& events) {
  return fmt::format(R"({{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl"}},
"traceEvents": [
{}
],
"traceName": "rank.json"}}
)",
                     fmt::join(events, ",\n"));
}

/// What differs between a rank's trace and what it did.
struct PytorchRank {
  Duration clock_ahead{};
  Duration sends_wait{};  // for their receivers, so much longer than both are there
};

/// A rank of a recording, its stages named as the recording says. Transfers without a number are
/// those of the microbatches 0, 1, … in this order.
inline std::string pytorch_text(const Recording& recording, DeviceId device,
                                const PytorchRank& rank = {}) {
  constexpr int kComputeStream = 7, kTransferStream = 20;
  std::vector<std::string> events{
      R"({"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}})",
      R"({"ph": "s", "id": 3, "pid": 0, "tid": 7, "ts": 0, "cat": "ac2g", "name": "ac2g"})"};
  for (const RecordedPass& pass : recording.passes) {
    std::map<std::pair<OpKind, bool>, std::int64_t> done;
    for (const RecordedOp& op : pass.devices[device]) {
      const bool transfer = is_transfer(op.kind);
      const char* letter = op.kind == OpKind::forward || op.kind == OpKind::send_activation ? "F"
                           : op.kind == OpKind::backward_input                              ? "I"
                           : op.kind == OpKind::backward_weight                             ? "W"
                                                                                            : "B";
      const bool back = recording.wave && op.chunk % 2 == 1;
      const std::size_t place = back ? recording.devices - 1 - index(device) : index(device);
      const std::int64_t in_order = done[{op.kind, op.receives}]++;
      const std::string name = fmt::format("PP:{}{}{}{}", op.chunk * recording.devices + place,
                                           !transfer     ? ""
                                           : op.receives ? "RECV_"
                                                         : "SEND_",
                                           letter, op.microbatch < 0 ? in_order : op.microbatch);
      const Duration waited = transfer && !op.receives ? rank.sends_wait : Duration{};
      const Duration start = op.start - waited + rank.clock_ahead;
      const Duration length = op.end - op.start + waited;
      // The host is far ahead; computation also starts something on another stream.
      events.push_back(pytorch_event("user_annotation", name, 1, start / 2, length / 9));
      if (!transfer) {
        events.push_back(pytorch_event("gpu_user_annotation", name, 33, start, length / 9));
      }
      events.push_back(pytorch_event("gpu_user_annotation", name,
                                     transfer ? kTransferStream : kComputeStream, start, length));
      events.push_back(pytorch_event("kernel", "gemm", kComputeStream, start, length));
    }
    events.push_back(pytorch_event("gpu_user_annotation", "PP:0REDUCE_GRAD", kComputeStream,
                                   rank.clock_ahead, Duration(1)));
  }
  return pytorch_document(events);
}

}  // namespace tandem::testing
