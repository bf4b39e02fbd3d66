#pragma once
// What one rank of torch.distributed.pipelining did, by the trace that PyTorch's profiler wrote of
// it. traces/recorded/FORMATS.md, "Traces of PyTorch".

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/units.h"
#include "core/schedule/op.h"
#include "traces/chrome/trace_events.h"

namespace tandem {

/// What the rank did for one action.
struct PytorchSlice {
  OpKind kind{};
  bool receives = false;
  std::int64_t stage = 0, microbatch = 0, stream = 0, step = 0;
  Duration start{}, end{};
  std::size_t position = 0;  // of its event
};

class PytorchRankReader {
 public:
  /// `origin`: of all times; the first of all ranks. Both must outlive the reader.
  PytorchRankReader(const std::string& name, std::optional<Duration>& origin);
  ~PytorchRankReader();
  PytorchRankReader(const PytorchRankReader&) = delete;
  PytorchRankReader& operator=(const PytorchRankReader&) = delete;

  /// Goes on behind what is wrong, to report it all.
  void event(std::size_t position, const nlohmann::json& value);
  /// Computation by ascending starts, then transfers, each with its step. Throws InputError with
  /// all that was wrong.
  std::vector<PytorchSlice> finish(const TraceFrame& frame);

 private:
  class Reading;
  std::unique_ptr<Reading> reading_;
};

}  // namespace tandem
