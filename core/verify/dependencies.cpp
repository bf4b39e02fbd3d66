#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

class Dependencies : public Checker {
 public:
  void check() {
    for (const StageId stage : facts_.stages()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_microbatch(stage, r);
    }
    for (const Link& link : facts_.links()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_link(link, r);
    }
    for (const ReplicaId replica : facts_.replicas()) check_updates(replica);
    for (const InstructionId id : program_.order()) {
      const OpKind kind = program_[id].op.kind;
      if (kind == OpKind::reduce_tied || kind == OpKind::reduce_gradient) check_reduction_order(id);
    }
  }

 private:
  void need(InstructionId first, InstructionId then, std::int64_t batches_later = 0) {
    if (!exists(first) || !exists(then)) return;  // reported as missing
    if (first == then && batches_later == 0) return;
    // What is outside of a group comes before all of it or after all of it.
    if (facts_.first_of_group(first) != facts_.first_of_group(then)) {
      first = facts_.last_of_group(first);
      then = facts_.first_of_group(then);
    }
    if (order_.before(first, then, batches_later)) return;
    report_.add(
        ViolationKind::missing_wait, then, "{} may start before {}{} has ended",
        at_instruction(program_, then), at_instruction(program_, first),
        batches_later == 0 ? std::string() : fmt::format(", {} before,", batches(batches_later)));
  }

  void check_microbatch(StageId stage, std::int32_t r) {
    const InstructionId forward = facts_.find(Work::forward, stage, r);
    const InstructionId again = facts_.find(Work::recompute, stage, r);
    const InstructionId backward = facts_.find(Work::input_gradient, stage, r);
    need(forward, again);
    need(again, backward);
    need(forward, backward);
    need(backward, facts_.find(Work::weight_gradient, stage, r));
    check_slices(stage, r);
    const InstructionId evict = facts_.find(Work::evict, stage, r);
    const InstructionId load = facts_.find(Work::load, stage, r);
    need(forward, evict);
    need(evict, load);
    need(load, backward);
  }

  /// A slice reads the keys and values of those before it in its microbatch; their gradients are
  /// whole once all later slices have gone back.
  void check_slices(StageId stage, std::int32_t r) {
    const std::int32_t slice = r % program_.slices();
    if (slice > 0)
      need(facts_.find(Work::forward, stage, r - 1), facts_.find(Work::forward, stage, r));
    if (slice + 1 == program_.slices()) return;
    need(facts_.find(Work::input_gradient, stage, r + 1),
         facts_.find(Work::input_gradient, stage, r));
  }

  void check_link(const Link& link, std::int32_t r) {
    const ReplicaId from = facts_.replica_of(link.from, r), to = facts_.replica_of(link.to, r);
    if (from == kNoReplica || to == kNoReplica || !link.joins(from, to)) return;
    const bool apart = facts_.device(from) != facts_.device(to);
    const auto row = static_cast<std::size_t>(r);
    need_through(facts_.find(Work::forward, link.from, r), apart, link.activation[row],
                 facts_.find(Work::forward, link.to, r));
    need_through(facts_.find(Work::input_gradient, link.to, r), apart, link.gradient[row],
                 facts_.find(Work::input_gradient, link.from, r));
  }

  void need_through(InstructionId first, bool apart, InstructionId transfer, InstructionId then) {
    if (!apart) return need(first, then);
    need(first, transfer);
    need(transfer, then);
  }

  /// Gradients, then their sums, then the norm of these, then the update, or what validates it;
  /// updates of a stage one after the other.
  void check_updates(ReplicaId replica) {
    const auto& updates = facts_.updates(replica);
    const StageId stage = facts_.stage(replica);
    for (const UpdateFact& update : updates) {
      for (const InstructionId reduce : {update.reduce_gradient, update.reduce_tied}) {
        if (exists(reduce)) need(reduce, update.id);
        if (exists(reduce)) need(reduce, update.reduce_norm);
      }
      need(update.reduce_norm, exists(update.validate) ? update.validate : update.id);
      need(update.id, update.validate);
      for (std::int32_t r = update.first; r <= update.last; ++r) {
        const InstructionId gradient = facts_.find(Work::weight_gradient, stage, r);
        if (!exists(gradient) || program_[gradient].op.replica != replica) continue;
        need(gradient, update.id);
        need(gradient, update.reduce_norm);
        for (const InstructionId reduce : {update.reduce_gradient, update.reduce_tied}) {
          if (exists(reduce)) need(gradient, reduce);
        }
      }
    }
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const bool last = i + 1 == updates.size();
      need(updates[i].id, updates[last ? 0 : i + 1].id, last ? 1 : 0);
    }
  }

  /// Sums over tied stages and over replicas give the whole sum in either order, but only if all
  /// devices keep to one.
  void check_reduction_order(InstructionId reduce) {
    const bool tied = program_[reduce].op.kind == OpKind::reduce_tied;
    bool some_first = false, some_last = false;
    for (const ReplicaId replica : facts_.participants(reduce)) {
      const std::int32_t covering = facts_.update_covering(replica, facts_.residue(reduce));
      if (covering < 0) continue;
      const UpdateFact& update = facts_.updates(replica)[static_cast<std::size_t>(covering)];
      const InstructionId other = tied ? update.reduce_gradient : update.reduce_tied;
      if (!exists(other)) continue;
      const bool first = order_.before(reduce, other);
      (first ? some_first : some_last) = true;
      if (!first) need(other, reduce);
    }
    if (!some_first || !some_last) return;
    report_.add(ViolationKind::missing_wait, reduce,
                "{} comes before the other sum on one device and after it on another, so that some "
                "gradients are summed twice",
                at_instruction(program_, reduce));
  }
};

}  // namespace

void check_dependencies(const Checker& of) { Dependencies{of}.check(); }

}  // namespace tandem::verification
