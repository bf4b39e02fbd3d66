#include "core/memory/framework_memory.h"

#include <algorithm>
#include <cmath>

namespace tandem {

namespace {

/// Whether `one` holds no more of anything.
bool within(const HeldCounts& one, const HeldCounts& other) {
  return one.all <= other.all && one.after_input <= other.after_input && one.remade <= other.remade;
}

}  // namespace

std::string_view name(FitsBy by) { return by == FitsBy::tandem ? "tandem" : "framework"; }

Table<DeviceId, MemoryByClass> framework_memory(const Program& program, const SlotCounts& slots,
                                                const Table<ReplicaId, StageBytes>& bytes) {
  const Placement& placement = program.placement();
  Table<ReplicaId, HeldActivation> held;
  Table<DeviceId, Bytes> workspace(placement.devices, 0);
  for (const ReplicaId replica : ids(bytes)) {
    held.push_back(bytes[replica].framework);
    Bytes& most = workspace[placement.device[replica]];
    most = std::max(most, bytes[replica].workspace);
  }
  const Table<DeviceId, double> peak = peak_held(program, held);
  Table<DeviceId, MemoryByClass> memory = memory_by_class(program, slots, bytes);
  for (const DeviceId device : ids(memory)) {
    memory[device].activations = std::llround(peak[device]);
    memory[device].buffers = workspace[device];
  }
  return memory;
}

Table<ReplicaId, std::vector<HeldCounts>> fullest_moments(const Program& program) {
  Table<ReplicaId, std::vector<HeldCounts>> fullest(program.placement().replicas());
  Table<ReplicaId, HeldCounts> held(fullest.size());
  each_held_change(program, [&](DeviceId, ReplicaId replica, const HeldCounts& change) {
    const HeldCounts& now = held[replica] += change;
    std::vector<HeldCounts>& known = fullest[replica];
    const auto holds_now = [&](const HeldCounts& one) { return within(now, one); };
    if (within(change, {}) || std::ranges::any_of(known, holds_now)) return;
    std::erase_if(known, [&](const HeldCounts& one) { return within(one, now); });
    known.push_back(now);
  });
  return fullest;
}

Bytes framework_total(const StageSlots& slots, const StageBytes& bytes,
                      const std::vector<HeldCounts>& fullest) {
  double activations = 0.0;
  for (const HeldCounts& moment : fullest)
    activations = std::max(activations, held_by(moment, bytes.framework));
  return slots[SlotKind::weights] * bytes[SlotKind::weights] +
         slots[SlotKind::forward_weights] * bytes[SlotKind::forward_weights] +
         slots[SlotKind::backward_weights] * bytes[SlotKind::backward_weights] +
         slots[SlotKind::gradients] * bytes[SlotKind::gradients] + optimizer_of(slots, bytes) +
         bytes.workspace + std::llround(activations);
}

}  // namespace tandem
