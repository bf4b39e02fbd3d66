#include "tools/print/training_memory.h"

#include <fmt/format.h>

namespace tandem::tools {

std::vector<MemoryUse> memory_use(const Table<DeviceId, MemoryByClass>& slots,
                                  const Table<DeviceId, Bytes>& workspace,
                                  const TrainingReport<float>& report) {
  std::vector<MemoryUse> use;
  for (const DeviceId device : ids(report.high_water)) {
    const auto planned = id_at<DeviceId>(index(device) % slots.size());
    use.push_back({.planned = slots[planned].total() + workspace[planned],
                   .measured = report.high_water[device].total() + report.workspace[device],
                   .equal = slots[planned] == report.high_water[device] &&
                            workspace[planned] == report.workspace[device]});
  }
  return use;
}

Json memory_json(const std::vector<MemoryUse>& memory) {
  Json rows = Json::array();
  for (const MemoryUse& device : memory) {
    rows.push_back({{"device", rows.size()},
                    {"planned_bytes", device.planned},
                    {"high_water_bytes", device.measured},
                    {"equal", device.equal}});
  }
  return rows;
}

void print_memory(const std::vector<MemoryUse>& memory) {
  for (std::size_t device = 0; device < memory.size(); ++device) {
    const MemoryUse& use = memory[device];
    fmt::print(
        "device {}: high-water mark {} of memory, {}\n", device, print_bytes(use.measured),
        use.equal ? "as planned to the byte" : fmt::format("planned {}", print_bytes(use.planned)));
  }
}

}  // namespace tandem::tools
