#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// A rollback makes a version again, and does again the forwards that have read it, each when those
/// that feed it are done again.
class PostValidationCheck : public Checker {
 public:
  void check() {
    for (const ReplicaId replica : facts_.replicas()) check_updates(replica);
    for (const StageId stage : facts_.stages()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_readers(stage, r);
    }
    for (const Link& link : facts_.links()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_link(link, r);
    }
  }

 private:
  /// All of its device, itself among them.
  std::vector<ReplicaId> beside(ReplicaId replica) const {
    return facts_.placement().replicas_on(facts_.device(replica));
  }

  /// What settles the version that a forward reads, and how many batches after it stands.
  struct Settled {
    InstructionId validate = kNoInstruction;
    std::int64_t later = 0;
  };

  Settled settling(InstructionId forward, std::int32_t r) const {
    const Op& op = program_[forward].op;
    const std::int32_t covering = facts_.update_covering(op.replica, r);
    if (covering < 0) return {};  // reported as a missing update
    const auto [maker, later] = facts_.numbered_update(op.replica, covering - op.staleness - 1);
    return {maker.validate, later};
  }

  /// The version that an update read is there until it is validated; and the stages of a device are
  /// validated in the order of the model, in which forwards feed one another.
  void check_updates(ReplicaId replica) {
    const auto& updates = facts_.updates(replica);
    const std::int64_t slots = slots_[replica][SlotKind::weights];
    for (std::size_t i = 0; i < updates.size() && slots > 0; ++i) {
      const InstructionId validate = updates[i].validate;
      const auto [writer, later] =
          facts_.numbered_update(replica, static_cast<std::int64_t>(i) + slots - 1);
      if (!exists(validate) || order_.before(validate, writer.id, later)) continue;
      report_.add(ViolationKind::version_overwritten, writer.id,
                  "{}: with {} weight slots, {} may overwrite the version that {} may go back to",
                  at_replica(program_, replica), slots, at_instruction(program_, writer.id),
                  at_instruction(program_, validate));
    }
    for (const ReplicaId other : beside(replica)) {
      if (facts_.stage(other) <= facts_.stage(replica)) continue;
      for (const UpdateFact& first : updates) {
        for (const UpdateFact& then : facts_.updates(other)) {
          if (first.last == then.last) need(first.validate, then.validate);
        }
      }
    }
  }

  void need(InstructionId first, InstructionId then, std::int64_t batches_later = 0) {
    if (!exists(first) || !exists(then) || order_.before(first, then, batches_later)) return;
    report_.add(ViolationKind::missing_wait, then, "{} may start before {} has ended",
                at_instruction(program_, then), at_instruction(program_, first));
  }

  /// Only forwards are done again, where their stashes still are; it is clear of each whether it
  /// is; and a device has run all of them before it validates any of its stages.
  void check_readers(StageId stage, std::int32_t r) {
    const InstructionId forward = facts_.find(Work::forward, stage, r);
    if (!exists(forward)) return;  // reported as missing
    const auto [validate, later] = settling(forward, r);
    if (!exists(validate)) return;
    for (const Work work :
         {Work::recompute, Work::input_gradient, Work::weight_gradient, Work::evict}) {
      need(validate, facts_.find(work, stage, r), -later);
    }
    if (!ahead(forward, {validate, later})) return need(validate, forward, -later);
    for (const ReplicaId other : beside(facts_.replica_of(stage, r))) {
      for (const UpdateFact& update : facts_.updates(other)) {
        if (update.last == facts_.residue(validate)) need(forward, update.validate, later);
      }
    }
  }

  bool ahead(InstructionId forward, const Settled& settled) {
    return order_.before(forward, settled.validate, settled.later);
  }

  void check_link(const Link& link, std::int32_t r) {
    const InstructionId from = facts_.find(Work::forward, link.from, r);
    const InstructionId to = facts_.find(Work::forward, link.to, r);
    if (!exists(from) || !exists(to)) return;
    if (!link.joins(program_[from].op.replica, program_[to].op.replica)) return;
    const Settled fed = settling(to, r), feeds = settling(from, r);
    if (!exists(fed.validate) || !exists(feeds.validate)) return;
    if (!ahead(to, fed) || ahead(from, feeds)) return;
    report_.add(ViolationKind::deadlock, to,
                "{} comes before {} but {}, which feeds it, after {}: a rollback would wait for "
                "itself",
                at_instruction(program_, to), at_instruction(program_, fed.validate),
                at_instruction(program_, from), at_instruction(program_, feeds.validate));
  }
};

}  // namespace

void check_post_validation(const Checker& of) {
  if (of.facts_.has_post_validation()) PostValidationCheck{of}.check();
}

}  // namespace tandem::verification
