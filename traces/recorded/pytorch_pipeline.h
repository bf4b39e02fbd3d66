#pragma once
// Traces of PyTorch's profiler (Kineto), one for each rank of a pipeline that
// torch.distributed.pipelining ran, whose actions it annotates: "PP:0F3", "PP:1SEND_F4". What is
// read of them: traces/recorded/FORMATS.md, "Traces of PyTorch".

#include <span>

#include "core/model/recording.h"
#include "traces/chrome/trace_source.h"

namespace tandem {

/// Reads the traces of all ranks of one replica, `.json` or `.json.gz`, in any order. Throws
/// InputError with the places of what is wrong. REQUIRES: 1 to 256 of them.
Recording read_pytorch_pipeline(std::span<const TraceSource> traces);

}  // namespace tandem
