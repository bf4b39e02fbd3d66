#pragma once
// Measured iterations of training runs, a row each, as CSV under a line of column names:
//
//   blocks,hidden,heads,sequence,tensor,width,depth,microbatch_size,global_batch,time_ms
//   24,1024,16,1024,2,1,2,4,16,218.592554
//
// in any order. A row may also name its devices (the product of tensor, width and depth),
// vocabulary (default 50257), schedule (default 1f1b) and recompute (default none). The names of
// vTrain's published measurements are known too (github.com/VIA-Research/vTrain): "# GPUs", "global
// batch", "micro batch", "hidden size", "attention heads", "# layers", "sequence length", "tensor
// parallelism", "data parallelism", "pipeline parallelism", "iteration time (ms)".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/model/model.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// INVARIANT: a registered schedule that is ordered by no costs and updates all stages together;
/// heads that `tensor` divides, blocks that `depth` divides, as Megatron asks.
struct MeasuredIteration {
  ModelSpec model;
  std::string schedule = std::string(plain_schedule().name);
  std::int32_t tensor = 1, width = 1, depth = 1;
  std::int32_t microbatch_size = 1, microbatches = 1;  // of each pipeline
  Recompute recompute = Recompute::none;
  Duration time{};  // of a batch, its update included
  std::int64_t devices() const { return std::int64_t{tensor} * width * depth; }
};

/// Throws InputError with every diagnostic. `file` is for messages. There is at least one row.
/// `unsaid`: of rows without a recompute column.
std::vector<MeasuredIteration> parse_iterations(std::string_view text, std::string_view file,
                                                Recompute unsaid = Recompute::none);
std::vector<MeasuredIteration> read_iterations(const std::string& path,
                                               Recompute unsaid = Recompute::none);

}  // namespace tandem
