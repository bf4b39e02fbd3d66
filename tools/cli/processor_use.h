#pragma once
// What else ran on this machine, and what this process held: a measured step is worth keeping only
// if nothing else took its processors meanwhile.

#include <chrono>
#include <cstdint>
#include <string_view>

#include "core/base/units.h"

namespace tandem::tools {

/// Shares of the processors' whole time, 0 to 1.
struct ProcessorUse {
  double stolen = 0.0;   // by other guests of the same host
  double foreign = 0.0;  // by other processes and the kernel
};

/// Processor time so far, in clock ticks: /proc/stat for all, /proc/self/stat for this process.
struct ProcessorTicks {
  std::int64_t busy = 0, stolen = 0, own = 0;
};

/// From the two files' texts. Zeros where a text is not what Linux writes.
ProcessorTicks parse_processor_ticks(std::string_view machine, std::string_view process);

/// Looks at the machine each time it is asked. Ticks are 10 ms: a share is good to about
/// 10 ms / (processors × time between two looks).
class ProcessorWatch {
 public:
  ProcessorWatch();
  /// Since the construction, or the last call.
  ProcessorUse since_last();

 private:
  ProcessorTicks last_;
  std::chrono::steady_clock::time_point looked_;
};

/// The most memory this process has held in RAM (VmHWM); 0 where the system does not tell.
Bytes peak_resident_memory();

}  // namespace tandem::tools
