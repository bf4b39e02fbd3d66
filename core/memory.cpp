#include "core/memory.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/check.h"

namespace tandem {

std::string_view name(SlotKind kind) {
  static constexpr std::string_view kNames[kSlotKinds] = {
      "weights", "gradients",       "stash",          "input",
      "output",  "output_gradient", "input_gradient", "kept_gradients"};
  return kNames[index(kind)];
}

MicrobatchSequence::MicrobatchSequence(const Program& program)
    : microbatches_(program.microbatches()),
      rank_of_residue_(program.placement().stages()),
      per_body_(program.placement().stages()) {
  for (const StageId stage : ids(rank_of_residue_)) {
    rank_of_residue_[stage].assign(static_cast<std::size_t>(microbatches_), -1);
  }
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.op.kind != OpKind::forward) continue;
    const auto residue = static_cast<std::size_t>(instruction.op.microbatch % microbatches_);
    rank_of_residue_[instruction.op.stage][residue] = 0;
  }
  for (const StageId stage : ids(rank_of_residue_)) {
    for (std::int32_t& rank : rank_of_residue_[stage]) {
      if (rank == 0) rank = per_body_[stage]++;
    }
  }
}

std::int64_t MicrobatchSequence::operator()(StageId stage, std::int64_t microbatch) const {
  const std::int32_t rank =
      rank_of_residue_[stage][static_cast<std::size_t>(microbatch % microbatches_)];
  TANDEM_CHECK(rank >= 0, index(stage), microbatch);
  return microbatch / microbatches_ * per_body_[stage] + rank;
}

Table<DeviceId, double> peak_held(const Program& program,
                                  const Table<StageId, HeldActivation>& held) {
  const Placement& placement = program.placement();
  Table<DeviceId, double> sum(placement.devices, 0.0), peak(placement.devices, 0.0);
  // Body 0 is the first with all instances on, and what it adds it takes away again: the bodies
  // after it are like it.
  for (std::int64_t body = -program.ramp(); body <= 0; ++body) {
    const std::int64_t first = -body * program.microbatches();
    for (const Instruction& instruction : program.instructions()) {
      const Op& op = instruction.op;
      if (op.microbatch < first || !is_compute(op.kind)) continue;
      const HeldActivation& of = held[op.stage];
      const DeviceId device = placement.device[op.stage];
      double& now = sum[device];
      if (op.kind == OpKind::forward) now += of.all;
      peak[device] = std::max(peak[device], now);
      if (op.kind == OpKind::backward) now -= of.all;
      if (op.kind == OpKind::backward_input) now -= of.all - of.after_input;
      if (op.kind == OpKind::backward_weight) now -= of.after_input * op.span;
    }
  }
  return peak;
}

Table<DeviceId, double> peak_activations(const Program& program, double after_input) {
  const Table<StageId, HeldActivation> held(program.placement().stages(), {1.0, after_input});
  Table<DeviceId, double> peak = peak_held(program, held);
  const Table<DeviceId, std::size_t> chunks = chunks_of(program.placement());
  for (const DeviceId device : ids(peak)) {
    if (chunks[device] > 0) peak[device] /= static_cast<double>(chunks[device]);
  }
  return peak;
}

Bytes workspace_of(const StageSlots& slots, const StageBytes& bytes) {
  const bool splits = slots[SlotKind::kept_gradients] > 0;
  return splits ? std::max(bytes.workspace, bytes.forward_workspace) : bytes.workspace;
}

Table<DeviceId, MemoryByClass> memory_by_class(const Program& program, const SlotCounts& slots,
                                               const Table<StageId, StageBytes>& bytes) {
  const Placement& placement = program.placement();
  Table<DeviceId, MemoryByClass> memory(placement.devices);
  Table<DeviceId, Bytes> workspace(placement.devices, 0);
  for (const StageId stage : ids(slots)) {
    const DeviceId device = placement.device[stage];
    const auto held = [&](SlotKind kind) { return slots[stage][kind] * bytes[stage][kind]; };
    MemoryByClass& of = memory[device];
    of.weights += bytes[stage][SlotKind::weights];
    of.versions += held(SlotKind::weights) - bytes[stage][SlotKind::weights];
    of.gradients += held(SlotKind::gradients);
    of.optimizer += bytes[stage].optimizer;
    of.activations += held(SlotKind::stash);
    for (const SlotKind kind : {SlotKind::input, SlotKind::output, SlotKind::output_gradient,
                                SlotKind::input_gradient, SlotKind::kept_gradients}) {
      of.buffers += held(kind);
    }
    workspace[device] = std::max(workspace[device], workspace_of(slots[stage], bytes[stage]));
  }
  for (const DeviceId device : ids(memory)) memory[device].buffers += workspace[device];
  return memory;
}

}  // namespace tandem
