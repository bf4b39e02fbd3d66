#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

/// One use of a ring slot: taken when the first of what acquires it starts, free when all that
/// release it have ended.
struct Use {
  std::int32_t label;                     // the microbatch, or of gradients the last one
  std::uint32_t acquires, releases, end;  // where these begin in `ids_`
};

class Slots {
 public:
  Slots(const Facts& facts, Order& order, const SlotCounts& slots, Report& report)
      : facts_(facts), program_(facts.program()), order_(order), slots_(slots), report_(report) {}

  void check() {
    const auto& keys = program_.cost_keys();
    const bool splits = std::any_of(keys.begin(), keys.end(), [](const CostKey& key) {
      return key.kind == OpKind::backward_input;
    });
    for (const StageId stage : ids(facts_.placement().device)) {
      find_links(stage);
      check_microbatches<SlotKind::stash>(stage);
      check_microbatches<SlotKind::input>(stage);
      check_microbatches<SlotKind::output>(stage);
      check_microbatches<SlotKind::output_gradient>(stage);
      check_microbatches<SlotKind::input_gradient>(stage);
      if (splits) check_microbatches<SlotKind::kept_gradients>(stage);
      if (facts_.evicts()) {
        check_microbatches<SlotKind::hosted_stash>(stage);
        fill_transit(stage);
        check_ring(stage, SlotKind::eviction_buffer);
      }
      fill_gradients(stage);
      check_ring(stage, SlotKind::gradients);
      if (!slots_[stage].forwards_in_workspace) check_borrowing(stage);
    }
  }

 private:
  /// A forward that its stage computes again borrows a stash slot: none may be held meanwhile. All
  /// of these ops are on one lane, whose bodies are alike but at a run's ends, where less is held.
  void check_borrowing(StageId stage) {
    const PartId part = facts_.part(stage);
    std::vector<InstructionId> frees;
    std::int64_t held = 0;  // as a body begins
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      const Seated made = facts_.find(Work::recompute, part, r);
      const Seated freed = facts_.last_gradient(part, r);
      if (facts_.stage_of(part, r) != stage || !exists(made) || !exists(freed)) continue;
      frees.push_back(freed);
      held += order_.batch(made) - order_.batch(freed);
    }
    if (frees.empty()) return;
    std::ranges::sort(frees);
    for (const InstructionId id : program_.order()) {
      const Op& op = program_[id].op;
      if (op.stage != stage) continue;
      if (op.kind == OpKind::forward && held > 0) {
        return report_.add(ViolationKind::slot_overwritten, id,
                           "{}: {} borrows a stash slot while a microbatch that was computed again "
                           "needs one",
                           at_stage(program_, stage), at_instruction(program_, id));
      }
      if (op.kind == OpKind::recompute) held += op.span;
      held -= std::ranges::ssize(std::ranges::equal_range(frees, id));
    }
  }

  template <SlotKind kind>
  void check_microbatches(StageId stage) {
    clear();
    const PartId part = facts_.part(stage);
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      if (facts_.stage_of(part, r) != stage) continue;
      const bool evicted = facts_.evicts() && exists(facts_.eviction(part, r).evict);
      if (evicted ? kind != SlotKind::stash : kind != SlotKind::hosted_stash)
        add_use<kind>(stage, r);
    }
    check_ring(stage, kind);
  }

  void clear() {
    uses_.clear();
    ids_.clear();
  }
  std::uint32_t end() const { return static_cast<std::uint32_t>(ids_.size()); }
  void add(Seated id) {
    if (exists(id)) ids_.push_back(id);
  }

  void find_links(StageId stage) {
    in_.clear();
    out_.clear();
    for (const Link& link : facts_.links()) {
      if (link.to == facts_.part(stage)) in_.push_back(&link);
      if (link.from == facts_.part(stage)) out_.push_back(&link);
    }
  }

  template <SlotKind kind>
  void add_use(StageId stage, std::int32_t r) {
    Use use{r, end(), 0, 0};
    acquire<kind>(stage, r);
    use.releases = end();
    release<kind>(stage, r);
    use.end = end();
    const bool made = kind == SlotKind::output || kind == SlotKind::input_gradient;
    if (made && use.releases == use.end) {  // nobody takes it, so that it holds no slot
      ids_.resize(use.acquires);
      use.releases = use.end = use.acquires;
    }
    uses_.push_back(use);
  }

  using Transfers = std::vector<Seated> Link::*;

  template <SlotKind kind>
  void acquire(StageId stage, std::int32_t r) {
    const PartId part = facts_.part(stage);
    switch (kind) {
      case SlotKind::stash: {
        const Seated again = facts_.find(Work::recompute, part, r);
        return add(exists(again) ? again : facts_.find(Work::forward, part, r));
      }
      case SlotKind::input:
        return add_transfers(in_, &Link::activation, r);
      case SlotKind::output_gradient:
        return add_transfers(out_, &Link::gradient, r);
      case SlotKind::output:
        return add(facts_.find(Work::forward, part, r));
      case SlotKind::input_gradient:
        return add(facts_.find(Work::input_gradient, part, r));
      case SlotKind::kept_gradients: {
        const Seated input = facts_.find(Work::input_gradient, part, r);
        if (exists(input) && input.id != facts_.last_gradient(part, r).id) add(input);
        return;
      }
      case SlotKind::hosted_stash:
        return add(facts_.eviction(part, r).evict);
      case SlotKind::weights:
      case SlotKind::gradients:
      case SlotKind::eviction_buffer:
        return;
    }
  }

  void add_transfers(const std::vector<const Link*>& links, Transfers transfers, std::int32_t r) {
    for (const Link* link : links) add((link->*transfers)[static_cast<std::size_t>(r)]);
  }

  template <SlotKind kind>
  void release(StageId stage, std::int32_t r) {
    const std::uint32_t begin = end();
    if (kind == SlotKind::output) add_takers(stage, out_, &Link::activation, r);
    if (kind == SlotKind::input_gradient) return add_takers(stage, in_, &Link::gradient, r);
    if (kind == SlotKind::output && end() == begin) return;
    if (kind == SlotKind::hosted_stash) return add(facts_.eviction(facts_.part(stage), r).load);
    add(facts_.last_gradient(facts_.part(stage), r));
  }

  /// What is made here goes by transfer, or stays until its consumer on this device has done with
  /// it.
  void add_takers(StageId stage, const std::vector<const Link*>& links, Transfers transfers,
                  std::int32_t r) {
    for (const Link* link : links) {
      const PartId other = link->from == facts_.part(stage) ? link->to : link->from;
      const StageId consumer = facts_.stage_of(other, r);
      if (consumer == kNoStage) continue;
      const bool here = facts_.device(consumer) == facts_.device(stage);
      add(here ? facts_.last_gradient(other, r) : (link->*transfers)[static_cast<std::size_t>(r)]);
    }
  }

  /// Twice for each microbatch that is evicted, in the order in which the uses begin.
  void fill_transit(StageId stage) {
    clear();
    const PartId part = facts_.part(stage);
    struct Stay {
      Seated taken, freed;
      std::int32_t residue;
    };
    std::vector<Stay> stays;
    for (std::int32_t r = 0; r < facts_.microbatches(); ++r) {
      const auto [evict, load] = facts_.eviction(part, r);
      if (facts_.stage_of(part, r) != stage || !exists(evict) || !exists(load)) continue;
      stays.push_back({facts_.find(Work::forward, part, r), evict, r});
      stays.push_back({load, facts_.last_gradient(part, r), r});
    }
    std::ranges::sort(stays, {}, [this](const Stay& stay) {
      return std::pair(-order_.batch(stay.taken), stay.taken.id);
    });
    for (const Stay& stay : stays) {
      const std::uint32_t begin = end();
      add(stay.taken);
      add(stay.freed);
      uses_.push_back({stay.residue, begin, begin + 1, end()});
    }
  }

  void fill_gradients(StageId stage) {
    clear();
    for (const UpdateFact& update : facts_.updates(stage)) {
      Use use{update.last, end(), 0, 0};
      for (std::int32_t r = update.first; r <= update.last; ++r) {
        const WorkFact& work = facts_.work(Work::weight_gradient, facts_.part(stage), r);
        if (facts_.stage_of(facts_.part(stage), r) == stage) add(work.id);
      }
      if (use.acquires == end()) {
        // A replica without a microbatch of its own still holds the sum that it takes part in.
        add(update.reduce_gradient);
        add(update.reduce_tied);
      }
      use.releases = end();
      add(exists(update.validate) ? update.validate : update.id);
      use.end = end();
      uses_.push_back(use);
    }
  }

  /// Use q of the ring `uses_` must wait for use q − count, which may lie batches before.
  void check_ring(StageId stage, SlotKind kind) {
    const auto uses = static_cast<std::int64_t>(uses_.size());
    const std::int64_t count = slots_[stage][kind];
    for (std::int64_t q = 0; q < uses; ++q) {
      const Use& use = uses_[static_cast<std::size_t>(q)];
      if (count < 1 && use.acquires < use.releases) {
        return report_none(stage, kind, ids_[use.acquires], use.label);
      }
      if (count < 1) continue;
      const std::int64_t apart = q >= count ? 0 : (count - q + uses - 1) / uses;  // rounds up
      const Use& last = uses_[static_cast<std::size_t>(q - count + apart * uses)];
      for (std::uint32_t then = use.acquires; then < use.releases; ++then) {
        for (std::uint32_t first = last.releases; first < last.end; ++first) {
          if (order_.before(ids_[first], ids_[then], apart)) continue;
          report_.add(
              ViolationKind::slot_overwritten, ids_[then],
              "{}: with {} {} slots, {} takes the one of microbatch {}{} for microbatch {}, "
              "but {} may still use it",
              at_stage(program_, stage), count, name(kind), at_instruction(program_, ids_[then]),
              last.label, apart == 0 ? "" : fmt::format(" ({} before)", batches(apart)), use.label,
              at_instruction(program_, ids_[first]));
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
  std::vector<Use> uses_;  // of a ring, in turn
  std::vector<Seated> ids_;
};

}  // namespace

void check_slots(const Facts& facts, Order& order, const SlotCounts& slots, Report& report) {
  Slots(facts, order, slots, report).check();
}

}  // namespace tandem::verification
