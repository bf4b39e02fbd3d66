#pragma once
// What a framework of the field, such as Megatron-LM, takes for a program: its allocator frees each
// tensor after its last use, where the executor's slots are there from start to end.

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/memory/held_changes.h"
#include "core/memory/memory.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// By which of two figures a plan fits in memory.
enum class FitsBy : std::uint8_t {
  framework,  // what a framework of the field takes
  tandem,     // what tandem's executor takes, to the byte
};
/// "framework", "tandem".
std::string_view name(FitsBy by);

/// Bytes of each device, both ways.
struct MemoryFigures {
  FitsBy by = FitsBy::framework;  // which of them says what fits
  Table<DeviceId, Bytes> framework = {}, tandem = {};
};

/// Bytes that a framework takes on each device. Weights and their versions, gradients and
/// optimizer are those of memory_by_class(); activations are the most that is ever held at once, by
/// the order of the device's ops (StageBytes::framework); buffers are the workspace of one op.
/// Where sequences are sliced, the gradient of a microbatch's keys and values is beside it.
/// Inputs that were received are held like activations; outputs are gone when they are sent. What
/// the allocator wastes between tensors is not in it: that is of what is kept free (Reserve).
Table<DeviceId, MemoryByClass> framework_memory(const Program& program, const SlotCounts& slots,
                                                const Table<ReplicaId, StageBytes>& bytes);

/// What a stage holds when it holds most: of any two moments neither holds as much as the other of
/// every part. REQUIRES: each stage is alone on its device, and none evicts.
Table<ReplicaId, std::vector<SlicesHeld>> fullest_moments(const Schedule& schedule);

/// framework_memory() of such a stage, in all.
Bytes framework_total(const StageSlots& slots, const StageBytes& bytes,
                      const std::vector<SlicesHeld>& fullest);

}  // namespace tandem
