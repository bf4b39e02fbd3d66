#pragma once
// What a training took of memory beside what was planned.

#include <vector>

#include "core/memory/memory.h"
#include "executor/train.h"
#include "tools/cli/json_output.h"

namespace tandem::tools {

/// Of one device, slots and what kernels work with.
struct MemoryUse {
  Bytes planned = 0, measured = 0;
  bool equal = false;  // in every class
};

/// Of the devices of all pipelines. `slots` and `workspace`: planned for those of each.
std::vector<MemoryUse> memory_use(const Table<DeviceId, MemoryByClass>& slots,
                                  const Table<DeviceId, Bytes>& workspace,
                                  const TrainingReport<float>& report);

Json memory_json(const std::vector<MemoryUse>& memory);
void print_memory(const std::vector<MemoryUse>& memory);

}  // namespace tandem::tools
