#pragma once
// What one rank of torch.distributed.pipelining did, by the trace that PyTorch's profiler wrote of
// it. traces/recorded/FORMATS.md, "Traces of PyTorch".

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/schedule/op.h"
#include "traces/chrome/trace_source.h"

namespace tandem {

/// What the rank did for one action.
struct PytorchSlice {
  OpKind kind{};
  bool receives = false;
  std::int64_t stage = 0, microbatch = 0, stream = 0, step = 0;
  Duration start{}, end{};
  std::size_t position = 0;  // of its event
};

/// Computation by ascending starts, then transfers, each with its step. `origin`: of all times; the
/// first of all ranks. Throws InputError with all that was wrong.
std::vector<PytorchSlice> read_pytorch_rank(const TraceSource& source,
                                            std::optional<Duration>& origin);

}  // namespace tandem
