#include <set>

#include "core/base/units.h"
#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// One use of a ring slot: taken when the first of `takers` starts, free when all users have ended.
struct Use {
  std::int32_t label = 0;  // the microbatch, or of gradients the last one
  std::vector<InstructionId> takers, users;
};

class Slots : public Checker {
 public:
  void check() {
    for (const ReplicaId replica : facts_.replicas()) {
      for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
        const auto slot = static_cast<SlotKind>(kind);
        if (!is_version(slot) && slot != SlotKind::stash && slot != SlotKind::context)
          check_ring(replica, slot, uses(replica, slot));
      }
      check_stashes(replica);
      check_contexts(replica);
    }
  }

 private:
  /// All uses of a ring in a batch, in the order in which they take its slots. Weights have checks
  /// of their own.
  std::vector<Use> uses(ReplicaId replica, SlotKind kind) const {
    if (kind == SlotKind::gradients) return uses_of_gradients(replica);
    if (kind == SlotKind::eviction_buffer) return uses_of_eviction_buffer(replica);
    if (kind == SlotKind::context_gradient) return uses_of_context_gradient(replica);
    std::vector<Use> all;
    const StageId stage = facts_.stage(replica);
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      if (facts_.replica_of(stage, r) != replica) continue;
      const bool evicted = exists(facts_.find(Work::evict, stage, r));
      if (kind == SlotKind::hosted_stash && !evicted) continue;
      all.push_back(use_of(kind, stage, r));
      std::erase(all.back().takers, kNoInstruction);
      std::erase(all.back().users, kNoInstruction);
    }
    return all;
  }

  /// Of a ring with a use for each microbatch.
  Use use_of(SlotKind kind, StageId stage, std::int32_t r) const {
    const InstructionId forward = facts_.find(Work::forward, stage, r);
    const InstructionId input_gradient = facts_.find(Work::input_gradient, stage, r);
    const InstructionId last = facts_.last_gradient(stage, r);
    switch (kind) {
      case SlotKind::input:
        return {r, received(stage, r), {exists(last) ? last : forward}};
      case SlotKind::kept_gradients:
        if (input_gradient == last) return {r, {}, {last}};
        return {r, {input_gradient}, {last}};
      case SlotKind::hosted_stash:
        return {r, {facts_.find(Work::evict, stage, r)}, {facts_.find(Work::load, stage, r)}};
      case SlotKind::output: {
        Use use{r, {forward}, consumers(stage, r, &Link::activation)};
        if (use.users.empty()) return {r, {}, {}};  // nobody takes it, so that it holds no slot
        use.users.push_back(last);
        if (gradient_replaces_output(stage, r)) {
          for (const InstructionId user : consumers(stage, r, &Link::gradient))
            use.users.push_back(user);
        }
        return use;
      }
      case SlotKind::input_gradient: {
        if (gradient_replaces_output(stage, r)) return {r, {}, {}};
        const Use use{r, {input_gradient}, consumers(stage, r, &Link::gradient)};
        return use.users.empty() ? Use{r, {}, {}} : use;
      }
      case SlotKind::weights:
      case SlotKind::forward_weights:
      case SlotKind::backward_weights:
      case SlotKind::stash:
      case SlotKind::gradients:
      case SlotKind::eviction_buffer:
      case SlotKind::context_gradient:
      case SlotKind::context:
        break;
    }
    return {r, {}, {}};
  }

  /// A whole backward writes over the gradient that a transfer brought, for which the output's slot
  /// was the place: the transfer of the output, which comes before (check_dependencies), has read
  /// it.
  bool gradient_replaces_output(StageId stage, std::int32_t r) const {
    const InstructionId made = facts_.find(Work::input_gradient, stage, r);
    if (!exists(made) || made != facts_.find(Work::weight_gradient, stage, r)) return false;
    return std::ranges::any_of(facts_.links(), [&](const Link& link) {
      return link.from == stage && exists(link.gradient[static_cast<std::size_t>(r)]);
    });
  }

  using Transfers = std::vector<InstructionId> Link::*;

  std::vector<InstructionId> received(StageId stage, std::int32_t r) const {
    std::vector<InstructionId> all;
    for (const Link& link : facts_.links()) {
      if (link.to == stage) all.push_back(link.activation[static_cast<std::size_t>(r)]);
    }
    return all;
  }

  /// What is made here goes by transfer, or stays until its consumer on this device has done with
  /// it.
  std::vector<InstructionId> consumers(StageId stage, std::int32_t r, Transfers transfers) const {
    std::vector<InstructionId> all;
    const ReplicaId replica = facts_.replica_of(stage, r);
    for (const Link& link : facts_.links()) {
      const bool forwards = transfers == &Link::activation;
      if ((forwards ? link.from : link.to) != stage) continue;
      const StageId other = forwards ? link.to : link.from;
      const ReplicaId consumer = facts_.replica_of(other, r);
      if (consumer == kNoReplica) continue;
      const bool here = facts_.device(consumer) == facts_.device(replica);
      const InstructionId done = program_.forwards_alone() ? facts_.find(Work::forward, other, r)
                                                           : facts_.last_gradient(other, r);
      all.push_back(here ? done : (link.*transfers)[static_cast<std::size_t>(r)]);
    }
    std::erase(all, kNoInstruction);
    return all;
  }

  /// Twice for each microbatch that is evicted, in the order in which the uses begin.
  std::vector<Use> uses_of_eviction_buffer(ReplicaId replica) const {
    std::vector<Use> all;
    const StageId stage = facts_.stage(replica);
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      const InstructionId evict = facts_.find(Work::evict, stage, r);
      const InstructionId load = facts_.find(Work::load, stage, r);
      if (facts_.replica_of(stage, r) != replica || !exists(evict) || !exists(load)) continue;
      all.push_back({r, {facts_.find(Work::forward, stage, r)}, {evict}});
      const InstructionId last = facts_.last_gradient(stage, r);
      all.push_back({r, {load}, exists(last) ? std::vector{last} : std::vector<InstructionId>{}});
    }
    std::ranges::sort(all, {}, [this](const Use& use) {
      return std::pair(-batch_of(program_, use.takers[0]), use.takers[0]);
    });
    return all;
  }

  /// For each whole microbatch, where there are slices, in the order in which they begin.
  std::vector<Use> uses_of_context_gradient(ReplicaId replica) const {
    std::vector<Use> all;
    const std::int32_t slices = program_.slices();
    const StageId stage = facts_.stage(replica);
    for (std::int32_t r = 0; slices > 1 && r < facts_.microbatches(); r += slices) {
      Use use{r, {facts_.find(Work::input_gradient, stage, r + slices - 1)}, {}};
      for (std::int32_t slice = 0; slice < slices; ++slice)
        use.users.push_back(facts_.find(Work::input_gradient, stage, r + slice));
      std::erase(use.users, kNoInstruction);
      if (exists(use.takers[0])) all.push_back(std::move(use));
    }
    std::ranges::sort(all, {}, [this](const Use& use) {
      return std::pair(-batch_of(program_, use.takers[0]), use.takers[0]);
    });
    return all;
  }

  std::vector<Use> uses_of_gradients(ReplicaId replica) const {
    std::vector<Use> all;
    const StageId stage = facts_.stage(replica);
    for (const UpdateFact& update : facts_.updates(replica)) {
      Use use{update.last, {}, {exists(update.validate) ? update.validate : update.id}};
      for (std::int32_t r = update.first; r <= update.last; ++r) {
        if (facts_.replica_of(stage, r) != replica) continue;
        use.takers.push_back(facts_.find(Work::weight_gradient, stage, r));
      }
      std::erase(use.takers, kNoInstruction);
      if (use.takers.empty()) {
        // A replica without a microbatch of its own still holds the sum that it takes part in.
        use.takers = {update.reduce_gradient, update.reduce_tied};
        std::erase(use.takers, kNoInstruction);
      }
      all.push_back(use);
    }
    return all;
  }

  /// Use q of a ring must wait for use q − count, which may lie batches before.
  void check_ring(ReplicaId replica, SlotKind kind, const std::vector<Use>& uses) {
    const auto per_batch = static_cast<std::int64_t>(uses.size());
    const std::int64_t count = slots_[replica][kind];
    for (std::int64_t q = 0; q < per_batch; ++q) {
      const Use& use = uses[static_cast<std::size_t>(q)];
      if (use.takers.empty()) continue;
      if (count < 1) {
        return report_.add(ViolationKind::slot_overwritten, use.takers[0],
                           "{}: no {} slot, but {} needs one for microbatch {}",
                           at_replica(program_, replica), name(kind),
                           at_instruction(program_, use.takers[0]), use.label);
      }
      const std::int64_t batches_before = -floor_div(q - count, per_batch);
      if (program_.forwards_alone() && batches_before > 0) continue;  // they have ended
      const Use& last = uses[static_cast<std::size_t>(q - count + batches_before * per_batch)];
      check_uses(replica, kind, last, use, batches_before);
    }
  }

  /// `last`, so many batches before, has ended before `use` takes its slot.
  void check_uses(ReplicaId replica, SlotKind kind, const Use& last, const Use& use,
                  std::int64_t batches_before) {
    for (const InstructionId taker : use.takers) {
      for (const InstructionId user : last.users) {
        if (order_.before(user, taker, batches_before)) continue;
        report_.add(ViolationKind::slot_overwritten, taker,
                    "{}: with {} {} slots, {} takes the one of microbatch {}{} for microbatch {}, "
                    "but {} may still use it",
                    at_replica(program_, replica), slots_[replica][kind], name(kind),
                    at_instruction(program_, taker), last.label,
                    batches_before == 0 ? "" : fmt::format(" ({} before)", batches(batches_before)),
                    use.label, at_instruction(program_, user));
      }
    }
  }

  /// No more stashes than slots are ever held. All ops that take or free one are on one lane, whose
  /// bodies are alike but at a run's ends, where less is held. A forward that its stage computes
  /// again borrows a slot while no other is held, unless it has the workspace.
  void check_stashes(ReplicaId replica) {
    const StageId stage = facts_.stage(replica);
    std::multiset<InstructionId> takes, frees, borrow;
    std::int64_t held = 0;  // as a body begins
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      if (facts_.replica_of(stage, r) != replica || exists(facts_.find(Work::evict, stage, r)))
        continue;
      const InstructionId again = facts_.find(Work::recompute, stage, r);
      const InstructionId forward = facts_.find(Work::forward, stage, r);
      const InstructionId made = exists(again) ? again : forward;
      const bool drops = exists(again) || program_.forwards_alone();
      if (drops && !slots_[replica].forwards_in_workspace) borrow.insert(forward);
      const InstructionId freed = facts_.last_gradient(stage, r);
      if (!exists(made) || !exists(freed)) continue;
      takes.insert(made);
      frees.insert(freed);
      held += batch_of(program_, made) - batch_of(program_, freed);
    }
    const std::int64_t slots = slots_[replica][SlotKind::stash];
    for (const InstructionId id : program_.order()) {
      const bool borrows = borrow.contains(id);
      if (borrows && held > 0) {
        return report_.add(ViolationKind::slot_overwritten, id,
                           "{}: {} borrows a stash slot while a microbatch that was computed again "
                           "needs one",
                           at_replica(program_, replica), at_instruction(program_, id));
      }
      held += static_cast<std::int64_t>(takes.count(id));
      if (held + (borrows ? 1 : 0) > slots) {
        return report_.add(ViolationKind::slot_overwritten, id,
                           "{}: {} stash slots, but {} needs one more",
                           at_replica(program_, replica), slots, at_instruction(program_, id));
      }
      held -= static_cast<std::int64_t>(frees.count(id));
    }
  }

  /// Nor more keys and values of slices that are computed again.
  void check_contexts(ReplicaId replica) {
    if (program_.slices() == 1) return;
    const StageId stage = facts_.stage(replica);
    std::multiset<InstructionId> takes, frees;
    std::int64_t held = 0;  // as a body begins
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      const InstructionId forward = facts_.find(Work::forward, stage, r);
      const InstructionId backward = facts_.find(Work::input_gradient, stage, r);
      if (facts_.replica_of(stage, r) != replica || !exists(forward) || !exists(backward) ||
          !exists(facts_.find(Work::recompute, stage, r)))
        continue;
      takes.insert(forward);
      frees.insert(backward);
      held += batch_of(program_, forward) - batch_of(program_, backward);
    }
    const std::int64_t slots = slots_[replica][SlotKind::context];
    for (const InstructionId id : program_.order()) {
      held += static_cast<std::int64_t>(takes.count(id));
      if (held > slots) {
        return report_.add(ViolationKind::slot_overwritten, id,
                           "{}: keys and values of {} slices are kept, but {} needs room for more",
                           at_replica(program_, replica), slots, at_instruction(program_, id));
      }
      held -= static_cast<std::int64_t>(frees.count(id));
    }
  }
};

}  // namespace

void check_slots(const Checker& of) { Slots{of}.check(); }

}  // namespace tandem::verification
