#include "core/memory/framework_memory.h"

#include <algorithm>
#include <cmath>

#include "core/memory/scheduled_ops.h"

namespace tandem {

namespace {

/// Whether `one` holds no more of anything.
bool within(const HeldCounts& one, const HeldCounts& other) {
  return one.all <= other.all && one.after_input <= other.after_input && one.remade <= other.remade;
}
bool within(const SlicesHeld& one, const SlicesHeld& other) {
  return std::ranges::equal(one, other,
                            [](const HeldCounts& a, const HeldCounts& b) { return within(a, b); });
}

Bytes context_gradients(const StageSlots& slots, const StageBytes& bytes) {
  return slots[SlotKind::context_gradient] * bytes[SlotKind::context_gradient];
}

}  // namespace

std::string_view name(FitsBy by) { return by == FitsBy::tandem ? "tandem" : "framework"; }

Table<DeviceId, MemoryByClass> framework_memory(const Program& program, const SlotCounts& slots,
                                                const Table<ReplicaId, StageBytes>& bytes) {
  const Placement& placement = program.placement();
  Table<DeviceId, Bytes> workspace(placement.devices, 0), beside = workspace;
  for (const ReplicaId replica : ids(bytes)) {
    beside[placement.device[replica]] += context_gradients(slots[replica], bytes[replica]);
    Bytes& most = workspace[placement.device[replica]];
    most = std::max(most, bytes[replica].workspace);
  }
  const Table<DeviceId, double> peak = peak_held(program, framework_of(bytes));
  Table<DeviceId, MemoryByClass> memory = memory_by_class(program, slots, bytes);
  for (const DeviceId device : ids(memory)) {
    memory[device].activations = std::llround(peak[device]);
    memory[device].buffers = workspace[device] + beside[device];
  }
  return memory;
}

Table<ReplicaId, std::vector<SlicesHeld>> fullest_moments(const Schedule& schedule) {
  const ScheduledOps program(schedule);
  Table<ReplicaId, std::vector<SlicesHeld>> fullest(program.placement().replicas());
  Table<ReplicaId, SlicesHeld> held(fullest.size(),
                                    SlicesHeld(static_cast<std::size_t>(program.slices())));
  each_held_change(program, [&](DeviceId, const Op& op, const HeldCounts& change) {
    SlicesHeld& now = held[op.replica];
    now[static_cast<std::size_t>(program.slice_of(op))] += change;
    std::vector<SlicesHeld>& known = fullest[op.replica];
    const auto holds_now = [&](const SlicesHeld& one) { return within(now, one); };
    if (within(change, {}) || std::ranges::any_of(known, holds_now)) return;
    std::erase_if(known, [&](const SlicesHeld& one) { return within(one, now); });
    known.push_back(now);
  });
  return fullest;
}

Bytes framework_total(const StageSlots& slots, const StageBytes& bytes,
                      const std::vector<SlicesHeld>& fullest) {
  double activations = 0.0;
  for (const SlicesHeld& moment : fullest) {
    double now = 0.0;
    for (std::size_t slice = 0; slice < moment.size(); ++slice)
      now += held_by(moment[slice],
                     bytes.slices.empty() ? bytes.framework : bytes.slices[slice].framework);
    activations = std::max(activations, now);
  }
  return slots[SlotKind::weights] * bytes[SlotKind::weights] +
         slots[SlotKind::forward_weights] * bytes[SlotKind::forward_weights] +
         slots[SlotKind::backward_weights] * bytes[SlotKind::backward_weights] +
         slots[SlotKind::gradients] * bytes[SlotKind::gradients] + optimizer_of(slots, bytes) +
         context_gradients(slots, bytes) + bytes.workspace + std::llround(activations);
}

}  // namespace tandem
