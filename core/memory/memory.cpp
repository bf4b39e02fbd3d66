#include "core/memory/memory.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/memory/held_changes.h"
#include "core/memory/scheduled_ops.h"
#include "core/memory/slot_knowledge.h"

namespace tandem {

std::string_view name(SlotKind kind) {
  static constexpr std::string_view kNames[kSlotKinds] = {
      "weights",          "gradients",        "stash",           "input",        "output",
      "input_gradient",   "kept_gradients",   "eviction_buffer", "hosted_stash", "forward_weights",
      "backward_weights", "context_gradient", "context"};
  return kNames[index(kind)];
}

MicrobatchSequence::Ranks::Ranks(const std::vector<bool>& members) : rank_(members.size(), -1) {
  for (std::size_t residue = 0; residue < members.size(); ++residue) {
    if (members[residue]) rank_[residue] = per_batch_++;
  }
}

std::int64_t MicrobatchSequence::Ranks::place(std::int64_t microbatch) const {
  TANDEM_CHECK(rank(microbatch) >= 0, microbatch);
  return microbatch / static_cast<std::int64_t>(rank_.size()) * per_batch_ + rank(microbatch);
}

MicrobatchSequence::MicrobatchSequence(const Program& program) {
  using Members = Table<ReplicaId, std::vector<bool>>;
  const auto m = static_cast<std::size_t>(program.microbatches());
  const Placement& placement = program.placement();
  Members all(placement.replicas(), std::vector<bool>(m, false));
  Members whole = all, comes_back = all, evicted;
  for (const Instruction& instruction : program.instructions()) {
    const Op& op = instruction.op;
    const auto residue = static_cast<std::size_t>(op.microbatch) % m;
    if (op.kind == OpKind::forward) all[op.replica][residue] = true;
    if (op.kind == OpKind::backward) whole[op.replica][residue] = true;
    if (op.kind != OpKind::evict) continue;
    if (evicted.empty()) evicted = Members(all.size(), std::vector<bool>(m, false));
    evicted[op.replica][residue] = true;
  }
  for (const auto& [from, to] : placement.edges) {
    if (placement.device[from] == placement.device[to]) continue;
    for (std::size_t r = 0; r < m; ++r)
      comes_back[from][r] = comes_back[from][r] || (whole[from][r] && all[to][r]);
  }
  const auto rank = [](const Members& members, Table<ReplicaId, Ranks>& ranks) {
    for (const std::vector<bool>& of_replica : members) ranks.push_back(Ranks(of_replica));
  };
  rank(all, all_);
  rank(comes_back, gradient_in_output_);
  rank(evicted, evicted_);
}

template <class Ops>
static Table<DeviceId, double> most_held(const Ops& program, const OfSlices<HeldActivation>& held) {
  Table<DeviceId, double> sum(program.placement().devices, 0.0), peak = sum;
  each_held_change(program, [&](DeviceId device, const Op& op, const HeldCounts& change) {
    sum[device] += held_by(change, held(op.replica, program.slice_of(op)));
    peak[device] = std::max(peak[device], sum[device]);
  });
  return peak;
}

Table<DeviceId, double> peak_held(const Program& program, const OfSlices<HeldActivation>& held) {
  return most_held(program, held);
}

Table<DeviceId, double> peak_held(const Schedule& schedule, const OfSlices<HeldActivation>& held) {
  TANDEM_CHECK(schedule.placement.partner.empty(), schedule.name);
  return most_held(ScheduledOps(schedule), held);
}

Table<DeviceId, Pieces> stash_pools(const Program& program, const SlotCounts& slots,
                                    const OfSlices<StashPieces>& pieces) {
  const Placement& placement = program.placement();
  const MicrobatchSequence sequence(program);
  std::vector<bool> recomputes(placement.replicas(), program.forwards_alone());
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.op.kind == OpKind::recompute) recomputes[index(instruction.op.replica)] = true;
  }
  Table<DeviceId, Pieces> used(placement.devices), most(placement.devices);
  const auto take = [&](const Op& op, Pieces StashPieces::* which, std::int64_t times) {
    const DeviceId device = placement.device[op.replica];
    for (const auto& [size, count] : pieces(op.replica, program.slice_of(op)).*which) {
      const std::int64_t now = used[device][size] += times * count;
      most[device][size] = std::max(most[device][size], now);
    }
  };
  constexpr auto kStash = &StashPieces::stash, kContext = &StashPieces::context;
  for_each_until_steady(program, [&](const Op& op) {
    if (sequence.evicts(op.replica, op.microbatch)) return;
    const bool again = recomputes[index(op.replica)], keeps = again && program.slices() > 1;
    if (op.kind == OpKind::forward && again) {
      if (keeps) take(op, kContext, 1);
      if (slots[op.replica].forwards_in_workspace) return;
      take(op, kStash, 1);  // while it runs
      take(op, kStash, -1);
    } else if (op.kind == OpKind::forward || op.kind == OpKind::recompute) {
      take(op, kStash, 1);
    }
    if (makes_input_gradient(op.kind) && keeps) take(op, kContext, -1);
    if (makes_weight_gradient(op.kind)) take(op, kStash, -op.span);
  });
  return most;
}

void count_pooled(const Program& program, SlotCounts& slots) {
  // A size of its own tells what is whose: even ones stashes, odd ones contexts.
  Table<ReplicaId, StashPieces> own;
  for (const ReplicaId replica : ids(slots)) {
    const auto size = 2 * static_cast<std::int64_t>(index(replica));
    own.push_back({.stash = {{size, 1}}, .context = {{size + 1, 1}}});
  }
  for (const Pieces& pool : stash_pools(program, slots, own)) {
    for (const auto& [size, count] : pool) {
      const SlotKind kind = size % 2 == 0 ? SlotKind::stash : SlotKind::context;
      slots[ReplicaId(size / 2)][kind] = static_cast<std::int32_t>(count);
    }
  }
}

Table<DeviceId, double> peak_activations(const Program& program, double after_input) {
  const Table<ReplicaId, HeldActivation> held(program.placement().replicas(), {1.0, after_input});
  Table<DeviceId, double> peak = peak_held(program, held);
  const Table<DeviceId, std::size_t> chunks = chunks_of(program.placement());
  for (const DeviceId device : ids(peak)) {
    peak[device] /= program.slices();
    if (chunks[device] > 0) peak[device] /= static_cast<double>(chunks[device]);
  }
  return peak;
}

/// Of each replica what `of_slice` says of each of its slices, or, where sequences are whole,
/// `of_whole` of its bytes.
template <class Value, class OfSlice, class OfWhole>
static OfSlices<Value> by_slices(const Table<ReplicaId, StageBytes>& bytes, const OfSlice& of_slice,
                                 const OfWhole& of_whole) {
  OfSlices<Value> all;
  for (const StageBytes& of : bytes) {
    std::vector<Value> row;
    for (const SliceBytes& slice : of.slices) row.push_back(of_slice(slice));
    if (row.empty()) row.push_back(of_whole(of));
    all.push_back(std::move(row));
  }
  return all;
}

OfSlices<HeldActivation> framework_of(const Table<ReplicaId, StageBytes>& bytes) {
  return by_slices<HeldActivation>(
      bytes, [](const SliceBytes& slice) { return slice.framework; },
      [](const StageBytes& whole) { return whole.framework; });
}

OfSlices<StashPieces> stash_pieces_of(const Table<ReplicaId, StageBytes>& bytes) {
  return by_slices<StashPieces>(
      bytes, [](const SliceBytes& slice) { return slice.pieces; },
      [](const StageBytes& whole) {
        return whole.pieces.stash.empty() ? StashPieces{.stash = {{whole[SlotKind::stash], 1}}}
                                          : whole.pieces;
      });
}

Bytes total_of(const Pieces& pieces) {
  Bytes bytes = 0;
  for (const auto& [size, count] : pieces) bytes += size * count;
  return bytes;
}

OfSlices<StashBytes> stash_bytes_of(const Table<ReplicaId, StageBytes>& bytes) {
  return by_slices<StashBytes>(
      bytes,
      [](const SliceBytes& slice) {
        return StashBytes{total_of(slice.pieces.stash), total_of(slice.pieces.context)};
      },
      [](const StageBytes& whole) { return StashBytes{.stash = whole[SlotKind::stash]}; });
}

Bytes optimizer_of(const StageSlots& slots, const StageBytes& bytes) {
  return bytes.optimizer + (slots.keeps_drift ? bytes.drift : 0);
}

Bytes workspace_of(const StageSlots& slots, const StageBytes& bytes) {
  if (!slots.forwards_in_workspace) return bytes.workspace;
  return std::max(bytes.workspace, bytes.forward_workspace);
}

/// Of stashes, on each device.
static Table<DeviceId, Bytes> pooled(const Program& program, const SlotCounts& slots,
                                     const Table<ReplicaId, StageBytes>& bytes) {
  const Placement& placement = program.placement();
  const OfSlices<StashPieces> pieces = stash_pieces_of(bytes);
  Table<DeviceId, Bytes> pools(placement.devices, 0);
  if (placement.replicas() == placement.devices && program.slices() == 1) {
    // Stashes of one stage are alike: the pool has as many as slots were counted from it.
    for (const ReplicaId replica : ids(slots))
      pools[placement.device[replica]] +=
          slots[replica][SlotKind::stash] * total_of(pieces(replica, 0).stash);
    return pools;
  }
  const Table<DeviceId, Pieces> of_devices = stash_pools(program, slots, pieces);
  for (const DeviceId device : ids(pools)) pools[device] = total_of(of_devices[device]);
  return pools;
}

Table<DeviceId, MemoryByClass> memory_by_class(const Program& program, const SlotCounts& slots,
                                               const Table<ReplicaId, StageBytes>& bytes) {
  const Placement& placement = program.placement();
  Table<DeviceId, MemoryByClass> memory(placement.devices);
  Table<DeviceId, Bytes> workspace(placement.devices, 0);
  const Table<DeviceId, Bytes> pools = pooled(program, slots, bytes);
  for (const ReplicaId replica : ids(slots)) {
    const DeviceId device = placement.device[replica];
    const auto held = [&](SlotKind kind) { return slots[replica][kind] * bytes[replica][kind]; };
    MemoryByClass& of = memory[device];
    of.weights += bytes[replica][SlotKind::weights];
    of.versions += held(SlotKind::weights) - bytes[replica][SlotKind::weights] +
                   held(SlotKind::forward_weights) + held(SlotKind::backward_weights);
    of.gradients += held(SlotKind::gradients);
    of.optimizer += optimizer_of(slots[replica], bytes[replica]);
    of.activations += held(SlotKind::eviction_buffer);
    if (slots[replica][SlotKind::hosted_stash] > 0)
      memory[placement.partner[device]].activations += held(SlotKind::hosted_stash);
    for (const SlotKind kind : {SlotKind::input, SlotKind::output, SlotKind::input_gradient,
                                SlotKind::kept_gradients, SlotKind::context_gradient}) {
      of.buffers += held(kind);
    }
    workspace[device] = std::max(workspace[device], workspace_of(slots[replica], bytes[replica]));
  }
  for (const DeviceId device : ids(memory)) {
    memory[device].buffers += workspace[device];
    memory[device].activations += pools[device];
  }
  return memory;
}

}  // namespace tandem
