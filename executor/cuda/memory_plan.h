#pragma once
// What a run takes of the memory of GPUs: slots by class, and what kernels work with. It is known
// before anything is allocated, and held against what is free then. Plain C++: nothing here asks a
// GPU.

#include <cstddef>
#include <span>

#include "core/base/table.h"
#include "core/base/units.h"
#include "core/memory/memory.h"
#include "core/program/program.h"

namespace tandem::cuda {

/// A GPU's memory that a run takes and no plan counts: code of kernels, cublasLt's own, what driver
/// and arenas round up. Contexts, green ones too, are apart: they are there when free memory is
/// read. A guess.
inline constexpr Bytes kBesidePlan = Bytes{512} << 20;

/// What the kernels of one stream work with.
struct StreamWorkspace {
  Bytes sums = 0, computation = 0;
};

/// Of each device of a pipeline, over all its streams.
Table<DeviceId, Bytes> planned_workspace(const Program& program, const StreamWorkspace& each);

/// What is planned for one device of a run.
struct PlannedDevice {
  std::size_t gpu = 0;
  MemoryByClass slots;
  Bytes workspace = 0;
  Bytes total() const { return slots.total() + workspace; }
};

/// Throws InfeasibleError, with the plan of each device by class, where the devices on a GPU need
/// more together than is free there. `free`: bytes of each GPU.
void check_room(std::span<const PlannedDevice> devices, std::span<const Bytes> free);

}  // namespace tandem::cuda
