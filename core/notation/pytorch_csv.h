#pragma once
// PyTorch's pipelining CSV (torch.distributed.pipelining), as its schedules write and read it: no
// header, a row a rank, a cell an action. {stage}{type}{microbatch}, or two of them issued as one:
// (0F7;7B3)OVERLAP_F_B. Types: F forward, B whole backward, I and W its halves for the input and
// the weights. Older files write BW for the whole and B for the half of the input: read, not
// written. An empty cell is idle time; cells that only move or sum data (SEND_F, UNSHARD, …) are
// left out when read, since lower() finds out what moves where.

#include <string>
#include <string_view>

#include "core/schedule/schedule.h"
#include "core/text/text_sink.h"

namespace tandem {

/// Whether `text` is such a file rather than our own notation, which has a "#" first, or at least a
/// "|" behind each device.
bool is_pytorch_csv(std::string_view text);

/// Throws InputError where the schedule needs words that the format lacks: weight versions, batches
/// that overlap, recomputation, replicas, sums and norms that are ops.
/// Nothing has been written then.
void print_pytorch_csv(const Schedule& schedule, const TextSink& out);
inline std::string print_pytorch_csv(const Schedule& schedule) {
  return collected([&](const TextSink& out) { print_pytorch_csv(schedule, out); });
}

/// A schedule with flush: an update of each stage ends its rank's row. Stage s hands over to stage
/// s + 1. Throws InputError with every diagnostic, each with line, column and caret; `file` is what
/// they call the text, and its stem the schedule's name. Whether the schedule works is not asked
/// here: lower() and verify() do.
Schedule parse_pytorch_csv(std::string_view text, std::string_view file);

}  // namespace tandem
