#include "core/memory/slot_rings.h"

#include <algorithm>

namespace tandem::slots {

SlotRings::SlotRings(const Program& program, const KnowledgeSpace& space, const SlotUses& uses)
    : program_(program), space_(space), uses_(uses), counts_(program.placement().replicas()) {
  count_versions();
  for (const ReplicaId replica : forwards_in_workspace(program))
    counts_[replica].forwards_in_workspace = true;
  count_pooled(program, counts_);
  const auto context = context_gradients(program);
  for (const ReplicaId replica : ids(context))
    counts_[replica][SlotKind::context_gradient] = context[replica];
}

/// As many as are ever in use, the newest with them: a run may pause after any batch, and go on
/// with what its microbatches in flight would have read.
void SlotRings::count_versions() {
  for (const ReplicaId replica : ids(counts_)) {
    require(SlotKind::weights, replica, 0);
    counts_[replica].keeps_drift = program_.reading(replica).corrects();
  }
  for (const Instruction& instruction : program_.instructions()) {
    const Op& op = instruction.op;
    if (reads_weights(op.kind)) require(uses_.slot_read_by(op), op.replica, op.staleness);
    if (op.kind == OpKind::validate) require(SlotKind::weights, op.replica, 1);
  }
}

void SlotRings::begin(OldestUses& oldest, InstructionId id, const Turn& now,
                      const Position* knows) {
  const Instruction& instruction = program_[id];
  const Op& op = instruction.op;
  const ReplicaId replica = op.replica;
  const Asker asker{program_.cost_keys()[instruction.cost].source, knows};
  const auto use = [&](SlotKind kind, ReplicaId of) {
    take(kind, of, now, asker, oldest[of][index(kind)]);
  };
  if (op.kind == OpKind::forward) {
    // By its meaning; verify() asks whether it may be.
    if (uses_.sequence().evicts(replica, now.residue))
      counts_[replica][SlotKind::eviction_buffer] = 1;
    // Not until its transfer's end: the gradient comes back to it, which proves that end without
    // an event.
    if (!uses_.below(replica).empty()) use(SlotKind::output, replica);
  } else if (op.kind == OpKind::evict) {
    take_hosted(replica, now, asker, oldest[replica][index(SlotKind::hosted_stash)]);
  } else if (op.kind == OpKind::send_activation) {
    use(SlotKind::input, uses_.receiver(id, now.residue));
  }
  if (makes_input_gradient(op.kind) && uses_.takes_input_gradient(replica, now.residue))
    use(SlotKind::input_gradient, replica);
  if (op.kind == OpKind::backward_input) use(SlotKind::kept_gradients, replica);
  if (uses_.is_first_gradient(id)) {
    const auto number = static_cast<std::int32_t>(uses_.update_of(replica, now.residue));
    take_gradient(replica, {now.batch, number}, asker, oldest[replica][index(SlotKind::gradients)]);
  }
}

std::vector<SlotKind> SlotRings::kinds_of(ReplicaId replica) const {
  std::vector<SlotKind> kinds;
  for (std::size_t i = 0; i < kSlotKinds; ++i) {
    const auto kind = static_cast<SlotKind>(i);
    if (counted_by_knowledge(kind) && counts_[replica][kind] > 0) kinds.push_back(kind);
  }
  return kinds;
}

/// What ends a use, in `batch`, is known to have ended.
bool SlotRings::ended(const Asker& asker, const Release& release, std::int64_t batch) const {
  const std::int32_t place = space_.place(asker.device, release.lane);
  if (place == kAbsent || program_.forwards_alone()) return false;
  return asker.knows[static_cast<std::size_t>(place)] >=
         (batch - release.batch) * uses_.lane_length(release.lane) + release.place;
}

/// Whether the slot that `replica` used for a microbatch is known to be free again.
bool SlotRings::released(SlotKind kind, ReplicaId replica, const Turn& microbatch,
                         const Asker& asker) const {
  const Table<ReplicaId, DeviceId>& device = program_.placement().device;
  const auto consumed = [&](const std::vector<ReplicaId>& consumers, ReleaseOf elsewhere) {
    return std::ranges::all_of(consumers, [&](ReplicaId consumer) {
      if (!uses_.processes(consumer, microbatch.residue)) return true;
      const bool local = device[consumer] == device[replica];
      const ReleaseOf by = local ? &SlotUses::weight_gradient : elsewhere;
      return ended(asker, (uses_.*by)(consumer, microbatch.residue), microbatch.batch);
    });
  };
  if (kind == SlotKind::input_gradient)
    return consumed(uses_.above(replica), &SlotUses::input_gradient);
  if (kind == SlotKind::output) {
    if (!consumed(uses_.below(replica), &SlotUses::forward)) return false;
    if (uses_.sequence().makes_gradient_in_output(replica, microbatch.residue) &&
        !consumed(uses_.above(replica), &SlotUses::input_gradient))
      return false;
  }
  return ended(asker, uses_.weight_gradient(replica, microbatch.residue), microbatch.batch);
}

void SlotRings::take(SlotKind kind, ReplicaId replica, const Turn& now, const Asker& asker,
                     Turn& oldest) {
  const std::int32_t m = program_.microbatches();
  while (oldest < now &&
         (!uses_.takes(kind, replica, oldest.residue) || released(kind, replica, oldest, asker))) {
    oldest.advance(m);
  }
  const MicrobatchSequence& sequence = uses_.sequence();
  require(kind, replica,
          sequence(replica, uses_.number(now)) - sequence(replica, uses_.number(oldest)));
}

/// The same of the stashes that are evicted.
void SlotRings::take_hosted(ReplicaId replica, const Turn& now, const Asker& asker, Turn& oldest) {
  const MicrobatchSequence& sequence = uses_.sequence();
  const auto free = [&] {
    if (!uses_.processes(replica, oldest.residue) || !sequence.evicts(replica, oldest.residue))
      return true;
    // The gradient that follows shows that the load has ended: it may hold no lane.
    return ended(asker, uses_.input_gradient(replica, oldest.residue), oldest.batch);
  };
  while (oldest < now && free()) oldest.advance(program_.microbatches());
  require(SlotKind::hosted_stash, replica,
          sequence.among_evicted(replica, uses_.number(now)) -
              sequence.among_evicted(replica, uses_.number(oldest)));
}

void SlotRings::take_gradient(ReplicaId replica, const Turn& now, const Asker& asker,
                              Turn& oldest) {
  const std::vector<CoveringUpdate>& updates = uses_.updates(replica);
  const auto count = static_cast<std::int32_t>(updates.size());
  while (oldest < now &&
         ended(asker, updates[static_cast<std::size_t>(oldest.residue)].release, oldest.batch)) {
    oldest.advance(count);
  }
  require(SlotKind::gradients, replica,
          (now.batch - oldest.batch) * count + now.residue - oldest.residue);
}

}  // namespace tandem::slots
