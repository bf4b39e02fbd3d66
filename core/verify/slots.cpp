#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// One use of a ring slot: taken when the first of `acquires` starts, free when all of `releases`
/// have ended.
struct Use {
  std::int32_t label = 0;  // the microbatch, or of gradients the last one
  std::vector<InstructionId> acquires, releases;

  void clear() {
    acquires.clear();
    releases.clear();
  }
};

void add(std::vector<InstructionId>& list, InstructionId id) {
  if (exists(id)) list.push_back(id);
}

class Slots {
 public:
  Slots(const Facts& facts, Order& order, const SlotCounts& slots, Report& report)
      : facts_(facts), program_(facts.program()), order_(order), slots_(slots), report_(report) {}

  void check() {
    for (const StageId stage : ids(facts_.placement().device)) {
      find_links(stage);
      std::vector<std::int32_t> residues;
      for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
        if (facts_.stage_of(facts_.part(stage), r) == stage) residues.push_back(r);
      }
      uses_.resize(residues.size());
      for (const SlotKind kind : {SlotKind::stash, SlotKind::input, SlotKind::output,
                                  SlotKind::output_gradient, SlotKind::input_gradient}) {
        for (std::size_t i = 0; i < residues.size(); ++i) fill(stage, kind, residues[i], uses_[i]);
        check_ring(stage, kind);
      }
      fill_gradients(stage);
      check_ring(stage, SlotKind::gradients);
    }
  }

 private:
  void find_links(StageId stage) {
    in_.clear();
    out_.clear();
    for (const Link& link : facts_.links()) {
      if (link.to == facts_.part(stage)) in_.push_back(&link);
      if (link.from == facts_.part(stage)) out_.push_back(&link);
    }
  }

  void fill(StageId stage, SlotKind kind, std::int32_t r, Use& use) const {
    use.clear();
    use.label = r;
    const PartId part = facts_.part(stage);
    switch (kind) {
      case SlotKind::stash: {
        const InstructionId again = facts_.find(Work::recompute, part, r);
        add(use.acquires, exists(again) ? again : facts_.find(Work::forward, part, r));
        add(use.releases, facts_.last_gradient(part, r));
        return;
      }
      case SlotKind::input:
        return fill_received(stage, r, in_, &Link::activation, use);
      case SlotKind::output_gradient:
        return fill_received(stage, r, out_, &Link::gradient, use);
      case SlotKind::output:
        add(use.acquires, facts_.find(Work::forward, part, r));
        fill_made(stage, r, out_, &Link::activation, use);
        if (!use.releases.empty()) add(use.releases, facts_.last_gradient(part, r));
        return;
      case SlotKind::input_gradient:
        add(use.acquires, facts_.find(Work::input_gradient, part, r));
        return fill_made(stage, r, in_, &Link::gradient, use);
      case SlotKind::weights:
      case SlotKind::gradients:
        return;
    }
  }

  using Transfers = std::vector<InstructionId> Link::*;

  void fill_received(StageId stage, std::int32_t r, const std::vector<const Link*>& links,
                     Transfers transfers, Use& use) const {
    for (const Link* link : links) {
      add(use.acquires, (link->*transfers)[static_cast<std::size_t>(r)]);
    }
    add(use.releases, facts_.last_gradient(facts_.part(stage), r));
  }

  /// What is made here goes by transfer, or stays until its consumer on this device has done with
  /// it.
  void fill_made(StageId stage, std::int32_t r, const std::vector<const Link*>& links,
                 Transfers transfers, Use& use) const {
    for (const Link* link : links) {
      const PartId other = link->from == facts_.part(stage) ? link->to : link->from;
      const StageId consumer = facts_.stage_of(other, r);
      if (consumer == kNoStage) continue;
      const bool here = facts_.device(consumer) == facts_.device(stage);
      add(use.releases,
          here ? facts_.last_gradient(other, r) : (link->*transfers)[static_cast<std::size_t>(r)]);
    }
    if (use.releases.empty()) use.acquires.clear();
  }

  void fill_gradients(StageId stage) {
    const auto& updates = facts_.updates(stage);
    uses_.resize(updates.size());
    for (std::size_t i = 0; i < updates.size(); ++i) {
      uses_[i].clear();
      uses_[i].label = updates[i].last;
      for (std::int32_t r = updates[i].first; r <= updates[i].last; ++r) {
        if (facts_.stage_of(facts_.part(stage), r) != stage) continue;
        add(uses_[i].acquires, facts_.find(Work::weight_gradient, facts_.part(stage), r));
      }
      if (uses_[i].acquires.empty()) uses_[i].acquires = first_collectives(updates[i]);
      add(uses_[i].releases, updates[i].id);
    }
  }

  /// A replica without a microbatch of its own still holds the sum that it takes part in.
  static std::vector<InstructionId> first_collectives(const UpdateFact& update) {
    std::vector<InstructionId> found;
    add(found, update.reduce_gradient);
    add(found, update.reduce_tied);
    return found;
  }

  /// Use q of the ring `uses_` must wait for use q − count, which may lie batches before.
  void check_ring(StageId stage, SlotKind kind) {
    const auto uses = static_cast<std::int64_t>(uses_.size());
    const std::int64_t count = slots_[stage][kind];
    for (std::int64_t q = 0; q < uses; ++q) {
      const Use& use = uses_[static_cast<std::size_t>(q)];
      if (count < 1 && !use.acquires.empty()) return report_none(stage, kind, use);
      if (count < 1) continue;
      // Rounds up; for q ≥ count within the batch.
      const std::int64_t apart = std::max<std::int64_t>(0, (count - q + uses - 1) / uses);
      const Use& last = uses_[static_cast<std::size_t>(q - count + apart * uses)];
      for (const InstructionId then : use.acquires) {
        for (const InstructionId first : last.releases) {
          if (order_.before(first, then, apart)) continue;
          report_.add(
              ViolationKind::slot_overwritten, then,
              "{}: with {} {} slots, {} takes the one of microbatch {}{} for microbatch {}, "
              "but {} may still use it",
              at_stage(program_, stage), count, name(kind), at_instruction(program_, then),
              last.label, apart == 0 ? "" : fmt::format(" ({} before)", batches(apart)), use.label,
              at_instruction(program_, first));
        }
      }
    }
  }

  void report_none(StageId stage, SlotKind kind, const Use& use) {
    report_.add(ViolationKind::slot_overwritten, use.acquires.front(),
                "{}: no {} slot, but {} needs one for microbatch {}", at_stage(program_, stage),
                name(kind), at_instruction(program_, use.acquires.front()), use.label);
  }

  const Facts& facts_;
  const Program& program_;
  Order& order_;
  const SlotCounts& slots_;
  Report& report_;
  std::vector<const Link*> in_, out_;
  std::vector<Use> uses_;
};

}  // namespace

void check_slots(const Facts& facts, Order& order, const SlotCounts& slots, Report& report) {
  Slots(facts, order, slots, report).check();
}

}  // namespace tandem::verification
