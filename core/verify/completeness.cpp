#include <string_view>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

class Completeness {
 public:
  Completeness(const Facts& facts, Report& report)
      : facts_(facts),
        program_(facts.program()),
        report_(report),
        recomputes_(facts.placement().replicas()) {
    for (const Instruction& each : program_.instructions()) {
      if (each.op.kind == OpKind::recompute) recomputes_[index(each.op.replica)] = true;
    }
  }

  void check() {
    for (const StageId stage : facts_.stages()) {
      if (facts_.replicas(stage).empty()) continue;
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
        check_work(stage, r);
        check_eviction(stage, r);
      }
      if (!program_.forwards_alone()) check_updates(stage);
    }
    check_nothing_trains();
    for (const Link& link : facts_.links()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_link(link, r);
    }
  }

 private:
  void check_nothing_trains() {
    for (const InstructionId id : program_.order()) {
      const OpKind kind = program_[id].op.kind;
      if (!program_.forwards_alone() || makes_output(kind) || carries_output(kind)) continue;
      report_.add(ViolationKind::malformed, id, "{}: in a program of forwards alone",
                  at_instruction(program_, id));
    }
  }

  void check_work(StageId stage, std::int32_t r) {
    need(stage, r, Work::forward, "forward");
    const ReplicaId replica = facts_.replica_of(stage, r);
    if (replica == kNoReplica) return;
    if (program_.forwards_alone()) return;
    need(stage, r, Work::input_gradient, "backward");
    need(stage, r, Work::weight_gradient, "weight gradient");
    // Its forwards keep nothing.
    if (recomputes_[index(replica)])
      need(stage, r, Work::recompute, "recomputation, as of others,");
    for (const Work work : {Work::input_gradient, Work::weight_gradient, Work::recompute}) {
      const InstructionId id = facts_.find(work, stage, r);
      if (!exists(id) || program_[id].op.replica == replica) continue;
      report_.add(ViolationKind::missing_op, id,
                  "{}: microbatch {} went forward on {}, so it can't be worked on here",
                  at_instruction(program_, id), r, at_replica(program_, replica));
    }
  }

  /// What leaves comes back, and is not computed again besides.
  void check_eviction(StageId stage, std::int32_t r) {
    const InstructionId evict = facts_.find(Work::evict, stage, r);
    const InstructionId load = facts_.find(Work::load, stage, r);
    if (exists(evict) != exists(load)) {
      const InstructionId alone = exists(evict) ? evict : load;
      report_.add(ViolationKind::missing_op, alone, "{}: no {} of microbatch {}",
                  at_instruction(program_, alone), exists(evict) ? "load" : "evict", r);
    }
    const InstructionId again = facts_.find(Work::recompute, stage, r);
    if (!exists(evict) || !exists(again)) return;
    report_.add(ViolationKind::malformed, evict, "{}: {} makes the stash of microbatch {} again",
                at_instruction(program_, evict), at_instruction(program_, again), r);
  }

  void need(StageId stage, std::int32_t r, Work work, std::string_view what) {
    if (exists(facts_.find(work, stage, r))) return;
    const InstructionId forward = facts_.find(Work::forward, stage, r);
    const std::vector<ReplicaId>& replicas = facts_.replicas(stage);
    const ReplicaId replica = exists(forward) ? program_[forward].op.replica : replicas.front();
    report_.add(ViolationKind::missing_op, exists(forward) ? forward : InstructionId{},
                "no {} of microbatch {} on {}", what, r,
                exists(forward) || replicas.size() == 1
                    ? at_replica(program_, replica)
                    : fmt::format("any replica of stage {}", index(stage)));
  }

  void check_updates(StageId stage) {
    const auto& like = facts_.updates(facts_.replicas(stage).front());
    for (const ReplicaId replica : facts_.replicas(stage)) {
      const auto& updates = facts_.updates(replica);
      check_partition(replica, updates);
      const auto same = [](const UpdateFact& a, const UpdateFact& b) {
        return a.first == b.first && a.last == b.last;
      };
      if (!std::equal(like.begin(), like.end(), updates.begin(), updates.end(), same)) {
        report_.add(ViolationKind::malformed, updates.empty() ? InstructionId{} : updates[0].id,
                    "{} does not update for the same microbatches as its replica, {}",
                    at_replica(program_, replica),
                    at_replica(program_, facts_.replicas(stage).front()));
      }
      for (const UpdateFact& update : updates) check_reductions(stage, replica, update);
    }
  }

  void check_partition(ReplicaId replica, const std::vector<UpdateFact>& updates) {
    std::int32_t next = 0;
    for (const UpdateFact& update : updates) {
      if (update.first > next) missing_update(replica, next, update.first - 1, update.id);
      if (update.first < next) {
        report_.add(ViolationKind::duplicate_op, update.id,
                    "{}: microbatch {} is covered by another update too",
                    at_instruction(program_, update.id), update.first);
      }
      next = std::max(next, update.last + 1);
    }
    if (next < facts_.microbatches()) {
      missing_update(replica, next, facts_.microbatches() - 1,
                     updates.empty() ? InstructionId{} : updates.back().id);
    }
  }

  void missing_update(ReplicaId replica, std::int32_t first, std::int32_t last, InstructionId id) {
    report_.add(ViolationKind::missing_op, id, "no update covers microbatch {} to {} on {}", first,
                last, at_replica(program_, replica));
  }

  void check_reductions(StageId stage, ReplicaId replica, const UpdateFact& update) {
    const bool replicated = facts_.replicas(stage).size() > 1 || facts_.width() > 1;
    if (replicated && !exists(update.reduce_gradient)) {
      report_.add(ViolationKind::missing_op, update.id,
                  "{}: no reduce_gradient sums the gradients of the replicas of {} before it",
                  at_instruction(program_, update.id), at_replica(program_, replica));
    }
    if (facts_.placement().tied_with(stage).size() > 1 && !exists(update.reduce_tied)) {
      report_.add(
          ViolationKind::missing_op, update.id,
          "{}: no reduce_tied sums the gradients of the stages that {} is tied to before it",
          at_instruction(program_, update.id), at_replica(program_, replica));
    }
    if (facts_.has_post_validation() && !exists(update.validate)) {
      report_.add(ViolationKind::missing_op, update.id, "{}: no validate settles what it has made",
                  at_instruction(program_, update.id));
    }
    if ((facts_.has_norm() || facts_.has_post_validation()) && !exists(update.reduce_norm)) {
      report_.add(ViolationKind::missing_op, update.id,
                  "{}: no reduce_norm of all gradients before it",
                  at_instruction(program_, update.id));
    }
  }

  /// Each microbatch of either stage crosses the link, and by a transfer each way where devices
  /// differ.
  void check_link(const Link& link, std::int32_t r) {
    const ReplicaId from = facts_.replica_of(link.from, r), to = facts_.replica_of(link.to, r);
    if (from == kNoReplica || to == kNoReplica) return;  // reported as a missing forward
    if (!link.joins(from, to)) {
      report_.add(ViolationKind::missing_op, facts_.find(Work::forward, link.to, r),
                  "microbatch {} runs on {} and on {}, which no edge joins", r,
                  at_replica(program_, from), at_replica(program_, to));
      return;
    }
    if (facts_.device(from) == facts_.device(to)) return;
    const auto row = static_cast<std::size_t>(r);
    if (!exists(link.activation[row])) {
      report_.add(ViolationKind::missing_transfer, facts_.find(Work::forward, link.to, r),
                  "no send_activation of microbatch {} from {} to {}", r,
                  at_replica(program_, from), at_replica(program_, to));
    }
    if (!program_.forwards_alone() && !exists(link.gradient[row])) {
      report_.add(ViolationKind::missing_transfer, facts_.find(Work::input_gradient, link.from, r),
                  "no send_gradient of microbatch {} from {} to {}", r, at_replica(program_, to),
                  at_replica(program_, from));
    }
  }

  const Facts& facts_;
  const Program& program_;
  Report& report_;
  std::vector<bool> recomputes_;  // by stage
};

}  // namespace

void check_completeness(const Facts& facts, Report& report) { Completeness(facts, report).check(); }

}  // namespace tandem::verification
