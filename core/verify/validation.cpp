#include <vector>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// A rollback makes a version again, and does again the forwards that have read it, each when those
/// that feed it are done again.
class Validation {
 public:
  Validation(const Facts& facts, Order& order, const SlotCounts& slots, Report& report)
      : facts_(facts), program_(facts.program()), order_(order), slots_(slots), report_(report) {}

  void check() {
    stages_on_.resize(facts_.placement().devices);
    for (const StageId stage : ids(facts_.placement().device)) {
      stages_on_[facts_.device(stage)].push_back(stage);
    }
    for (const StageId stage : ids(facts_.placement().device)) check_updates(stage);
    for (std::size_t p = 0; p < facts_.placement().parts(); ++p) {
      const PartId part = id_at<PartId>(p);
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_readers(part, r);
    }
    for (const Link& link : facts_.links()) {
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) check_link(link, r);
    }
  }

 private:
  /// What settles the version that a forward reads, and how many batches after it stands.
  struct Settled {
    Seated validate{};
    std::int64_t later = 0;
  };

  Settled settling(const WorkFact& forward, std::int32_t r) const {
    const auto& updates = facts_.updates(forward.stage);
    const std::int32_t covering = facts_.update_covering(forward.stage, r);
    if (covering < 0) return {};  // reported as a missing update
    const auto count = static_cast<std::int64_t>(updates.size());
    const std::int64_t number = covering - forward.staleness - 1;
    const std::int64_t later = (number - (number < 0 ? count - 1 : 0)) / count;
    return {updates[static_cast<std::size_t>(number - later * count)].validate, later};
  }

  /// The version that an update read is there until it is validated; and the stages of a device are
  /// validated in the order of the model, in which forwards feed one another.
  void check_updates(StageId stage) {
    const auto& updates = facts_.updates(stage);
    const auto count = static_cast<std::int64_t>(updates.size());
    const std::int64_t slots = slots_[stage][SlotKind::weights];
    for (std::int64_t i = 0; i < count && slots > 0; ++i) {
      const Seated validate = updates[static_cast<std::size_t>(i)].validate;
      const std::int64_t writer = i + slots - 1;
      const Seated by = updates[static_cast<std::size_t>(writer % count)].id;
      if (!exists(validate) || order_.before(validate, by, writer / count)) continue;
      report_.add(ViolationKind::version_overwritten, by,
                  "{}: with {} weight slots, {} may overwrite the version that {} may go back to",
                  at_stage(program_, stage), slots, at_instruction(program_, by),
                  at_instruction(program_, validate));
    }
    for (const StageId other : stages_on_[facts_.device(stage)]) {
      if (facts_.part(other) <= facts_.part(stage)) continue;
      for (const UpdateFact& first : updates) {
        for (const UpdateFact& then : facts_.updates(other)) {
          if (first.last == then.last) need(first.validate, then.validate);
        }
      }
    }
  }

  void need(Seated first, Seated then, std::int64_t batches_later = 0) {
    if (!exists(first) || !exists(then) || order_.before(first, then, batches_later)) return;
    report_.add(ViolationKind::missing_wait, then, "{} may start before {} has ended",
                at_instruction(program_, then), at_instruction(program_, first));
  }

  /// Only forwards are done again, where their stashes still are; it is clear of each whether it
  /// is; and a device has run all of them before it validates any of its stages.
  void check_readers(PartId part, std::int32_t r) {
    const WorkFact& forward = facts_.work(Work::forward, part, r);
    if (!exists(forward.id)) return;  // reported as missing
    const Settled settled = settling(forward, r);
    if (!exists(settled.validate)) return;
    for (const Work work : {Work::recompute, Work::input_gradient, Work::weight_gradient}) {
      need(settled.validate, facts_.find(work, part, r), -settled.later);
    }
    if (facts_.evicts()) need(settled.validate, facts_.eviction(part, r).evict, -settled.later);
    if (!ahead(forward, settled)) return need(settled.validate, forward.id, -settled.later);
    for (const StageId other : stages_on_[facts_.device(forward.stage)]) {
      for (const UpdateFact& update : facts_.updates(other)) {
        if (update.last != facts_.residue(settled.validate)) continue;
        need(forward.id, update.validate, settled.later);
      }
    }
  }

  bool ahead(const WorkFact& forward, const Settled& settled) {
    return order_.before(forward.id, settled.validate, settled.later);
  }

  void check_link(const Link& link, std::int32_t r) {
    const WorkFact &from = facts_.work(Work::forward, link.from, r),
                   &to = facts_.work(Work::forward, link.to, r);
    if (!exists(from.id) || !exists(to.id) || !link.joins(from.stage, to.stage)) return;
    const Settled fed = settling(to, r), feeds = settling(from, r);
    if (!exists(fed.validate) || !exists(feeds.validate)) return;
    if (!ahead(to, fed) || ahead(from, feeds)) return;
    report_.add(ViolationKind::deadlock, to.id,
                "{} comes before {} but {}, which feeds it, after {}: a rollback would wait for "
                "itself",
                at_instruction(program_, to.id), at_instruction(program_, fed.validate),
                at_instruction(program_, from.id), at_instruction(program_, feeds.validate));
  }

  const Facts& facts_;
  const Program& program_;
  Order& order_;
  const SlotCounts& slots_;
  Report& report_;
  Table<DeviceId, std::vector<StageId>> stages_on_;
};

}  // namespace

void check_validation(const Facts& facts, Order& order, const SlotCounts& slots, Report& report) {
  if (facts.has_validation()) Validation(facts, order, slots, report).check();
}

}  // namespace tandem::verification
