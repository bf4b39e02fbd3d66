#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// The uses of a ring in turn. A slot is taken when the first of a use's `acquires` starts, and
/// free when all of its `releases` have ended.
class Uses {
 public:
  void clear() {
    uses_.clear();
    ids_.clear();
  }
  /// A new use; `label`: the microbatch, or of gradients the last one. Acquires come before
  /// releases.
  void begin(std::int32_t label) { uses_.push_back({label, end(), end(), end()}); }
  void acquire(Seated id) {
    if (!exists(id)) return;
    ids_.push_back(id);
    uses_.back().releases = uses_.back().end = end();
  }
  void release(Seated id) {
    if (!exists(id)) return;
    ids_.push_back(id);
    uses_.back().end = end();
  }
  /// What nobody releases takes no slot. False: so it was.
  bool drop_unreleased() {
    Use& use = uses_.back();
    if (use.releases != use.end) return true;
    ids_.resize(use.acquires);
    use.releases = use.end = end();
    return false;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(uses_.size()); }
  std::int32_t label(std::int64_t q) const { return use(q).label; }
  std::span<const Seated> acquires(std::int64_t q) const {
    return std::span(ids_).subspan(use(q).acquires, use(q).releases - use(q).acquires);
  }
  std::span<const Seated> releases(std::int64_t q) const {
    return std::span(ids_).subspan(use(q).releases, use(q).end - use(q).releases);
  }

 private:
  struct Use {
    std::int32_t label;
    std::uint32_t acquires, releases, end;  // where these begin in ids_
  };
  const Use& use(std::int64_t q) const { return uses_[static_cast<std::size_t>(q)]; }
  std::uint32_t end() const { return static_cast<std::uint32_t>(ids_.size()); }

  std::vector<Use> uses_;
  std::vector<Seated> ids_;
};

class Slots {
 public:
  Slots(const Facts& facts, Order& order, const SlotCounts& slots, Report& report)
      : facts_(facts), program_(facts.program()), order_(order), slots_(slots), report_(report) {}

  void check() {
    for (const StageId stage : ids(facts_.placement().device)) {
      find_links(stage);
      for (const SlotKind kind : {SlotKind::stash, SlotKind::input, SlotKind::output,
                                  SlotKind::output_gradient, SlotKind::input_gradient}) {
        uses_.clear();
        for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
          if (facts_.stage_of(facts_.part(stage), r) == stage) fill(stage, kind, r);
        }
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

  void fill(StageId stage, SlotKind kind, std::int32_t r) {
    uses_.begin(r);
    const PartId part = facts_.part(stage);
    switch (kind) {
      case SlotKind::stash: {
        const Seated again = facts_.find(Work::recompute, part, r);
        uses_.acquire(exists(again) ? again : facts_.find(Work::forward, part, r));
        uses_.release(facts_.last_gradient(part, r));
        return;
      }
      case SlotKind::input:
        return fill_received(stage, r, in_, &Link::activation);
      case SlotKind::output_gradient:
        return fill_received(stage, r, out_, &Link::gradient);
      case SlotKind::output:
        uses_.acquire(facts_.find(Work::forward, part, r));
        if (fill_made(stage, r, out_, &Link::activation)) {
          uses_.release(facts_.last_gradient(part, r));
        }
        return;
      case SlotKind::input_gradient:
        uses_.acquire(facts_.find(Work::input_gradient, part, r));
        fill_made(stage, r, in_, &Link::gradient);
        return;
      case SlotKind::weights:
      case SlotKind::gradients:
        return;
    }
  }

  using Transfers = std::vector<Seated> Link::*;

  void fill_received(StageId stage, std::int32_t r, const std::vector<const Link*>& links,
                     Transfers transfers) {
    for (const Link* link : links) {
      uses_.acquire((link->*transfers)[static_cast<std::size_t>(r)]);
    }
    uses_.release(facts_.last_gradient(facts_.part(stage), r));
  }

  /// What is made here goes by transfer, or stays until its consumer on this device has done with
  /// it. False: nobody takes it.
  bool fill_made(StageId stage, std::int32_t r, const std::vector<const Link*>& links,
                 Transfers transfers) {
    for (const Link* link : links) {
      const PartId other = link->from == facts_.part(stage) ? link->to : link->from;
      const StageId consumer = facts_.stage_of(other, r);
      if (consumer == kNoStage) continue;
      const bool here = facts_.device(consumer) == facts_.device(stage);
      uses_.release(here ? facts_.last_gradient(other, r)
                         : (link->*transfers)[static_cast<std::size_t>(r)]);
    }
    return uses_.drop_unreleased();
  }

  void fill_gradients(StageId stage) {
    const auto& updates = facts_.updates(stage);
    uses_.clear();
    for (const UpdateFact& update : updates) {
      uses_.begin(update.last);
      for (std::int32_t r = update.first; r <= update.last; ++r) {
        if (facts_.stage_of(facts_.part(stage), r) != stage) continue;
        uses_.acquire(facts_.find(Work::weight_gradient, facts_.part(stage), r));
      }
      if (uses_.acquires(uses_.size() - 1).empty()) {
        // A replica without a microbatch of its own still holds the sum that it takes part in.
        uses_.acquire(update.reduce_gradient);
        uses_.acquire(update.reduce_tied);
      }
      uses_.release(update.id);
    }
  }

  /// Use q of the ring `uses_` must wait for use q − count, which may lie batches before.
  void check_ring(StageId stage, SlotKind kind) {
    const std::int64_t uses = uses_.size(), count = slots_[stage][kind];
    for (std::int64_t q = 0; q < uses; ++q) {
      const auto acquires = uses_.acquires(q);
      if (count < 1 && !acquires.empty()) {
        return report_none(stage, kind, acquires.front(), uses_.label(q));
      }
      if (count < 1) continue;
      const std::int64_t apart = q >= count ? 0 : (count - q + uses - 1) / uses;  // rounds up
      const std::int64_t last = q - count + apart * uses;
      for (const Seated then : acquires) {
        for (const Seated first : uses_.releases(last)) {
          if (order_.before(first, then, apart)) continue;
          report_.add(
              ViolationKind::slot_overwritten, then,
              "{}: with {} {} slots, {} takes the one of microbatch {}{} for microbatch {}, "
              "but {} may still use it",
              at_stage(program_, stage), count, name(kind), at_instruction(program_, then),
              uses_.label(last), apart == 0 ? "" : fmt::format(" ({} before)", batches(apart)),
              uses_.label(q), at_instruction(program_, first));
        }
      }
    }
  }

  void report_none(StageId stage, SlotKind kind, InstructionId taker, std::int32_t label) {
    report_.add(ViolationKind::slot_overwritten, taker,
                "{}: no {} slot, but {} needs one for microbatch {}", at_stage(program_, stage),
                name(kind), at_instruction(program_, taker), label);
  }

  const Facts& facts_;
  const Program& program_;
  Order& order_;
  const SlotCounts& slots_;
  Report& report_;
  std::vector<const Link*> in_, out_;
  Uses uses_;
};

}  // namespace

void check_slots(const Facts& facts, Order& order, const SlotCounts& slots, Report& report) {
  Slots(facts, order, slots, report).check();
}

}  // namespace tandem::verification
