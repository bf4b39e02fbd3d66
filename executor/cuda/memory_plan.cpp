#include "executor/cuda/memory_plan.h"

#include <iterator>
#include <string>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/backend/stream_use.h"

namespace tandem::cuda {
namespace {

std::string table_of(std::span<const PlannedDevice> devices) {
  constexpr const char* kRow =
      "\n{:>6} {:>4} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}";
  std::string table = fmt::format(kRow, "device", "GPU", "weights", "versions", "gradients",
                                  "optimizer", "activations", "buffers", "workspace", "total");
  std::size_t number = 0;
  for (const PlannedDevice& device : devices) {
    const MemoryByClass& slots = device.slots;
    fmt::format_to(std::back_inserter(table), kRow, number++, device.gpu,
                   print_bytes(slots.weights), print_bytes(slots.versions),
                   print_bytes(slots.gradients), print_bytes(slots.optimizer),
                   print_bytes(slots.activations), print_bytes(slots.buffers),
                   print_bytes(device.workspace), print_bytes(device.total()));
  }
  return table;
}

}  // namespace

Table<DeviceId, Bytes> planned_workspace(const Program& program, const StreamWorkspace& each) {
  Table<DeviceId, Bytes> workspace(program.placement().devices, 0);
  for (const Lane& lane : program.lanes()) {
    const StreamUse use = stream_use(lane.kind);
    if (use == StreamUse::computation) workspace[lane.device] += each.computation;
    if (use == StreamUse::sums) workspace[lane.device] += each.sums;
  }
  return workspace;
}

void check_room(std::span<const PlannedDevice> devices, std::span<const Bytes> free) {
  std::string missing;
  for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
    Bytes needed = 0;
    std::size_t there = 0;
    for (const PlannedDevice& device : devices) {
      if (device.gpu != gpu) continue;
      needed += device.total();
      ++there;
    }
    if (needed == 0 || needed + kBesidePlan <= free[gpu]) continue;
    fmt::format_to(
        std::back_inserter(missing), "{}GPU {}: {} {} {}, and {} beside the plan, but {} are free",
        missing.empty() ? "" : "\n", gpu, there, there == 1 ? "device needs" : "devices need",
        print_bytes(needed), print_bytes(kBesidePlan), print_bytes(free[gpu]));
  }
  if (!missing.empty()) throw InfeasibleError(missing + table_of(devices));
}

}  // namespace tandem::cuda
