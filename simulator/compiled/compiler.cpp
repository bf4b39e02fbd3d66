// Makes a CompiledProgram: who precedes each instruction, until when its end is read, and
// where it is kept that long.

#include "simulator/compiled/compiled_program.h"
#include "simulator/compiled/predecessors.h"

namespace tandem {

namespace {

using compiling::in_body;
using compiling::kNobody;
using compiling::kState;
using compiling::OnLane;
using compiling::OnLanes;
using compiling::Predecessors;
using compiling::Ref;

constexpr std::uint32_t kForever = std::numeric_limits<std::uint32_t>::max();

}  // namespace

/// Two passes: what each step waits for and until when that is read; then a slot for each value.
class ProgramCompiler {
 public:
  ProgramCompiler(const Program& program, CompiledProgram& compiled)
      : program_(program),
        compiled_(compiled),
        zero_price_(static_cast<std::uint32_t>(program.cost_keys().size())),
        on_(program.lanes().size()),
        may_switch_off_(program.ramp() > 0),
        free_(1) {}

  /// False, and all in vain, if the ends of a link turn out to be no pair.
  bool compile(bool pair_links) {
    compiled_.prices_ = zero_price_ + 1;
    compiled_.counts_.assign(program_.cost_keys().size(), 0);
    compiled_.compute_counts_.assign(program_.cost_keys().size(), 0);
    zero_slot_ = static_cast<std::uint32_t>(compiled_.carry_over_.size());
    if (zero_price_ > kMost<std::uint16_t>) compiled_.code_.emplace<Wide>();
    Predecessors predecessors(program_, compiled_.carry_over_, pair_links, on_);
    std::visit([&](auto& code) { find_steps(code, predecessors); }, compiled_.code_);
    if (!predecessors.pairs_hold()) return false;
    keep_forever();
    reserve_slots();
    if (auto* narrow = std::get_if<Narrow>(&compiled_.code_)) assign_slots(*narrow);
    if (next_ < program_.size()) {
      if (std::holds_alternative<Narrow>(compiled_.code_)) widen();
      assign_slots(std::get<Wide>(compiled_.code_));
    }
    add_copies();
    compiled_.values_ = next_slot_;
    for (const OnLane& on : on_) may_switch_off_ &= !on.late || on.last == on.last_own;
    compiled_.can_switch_off_ = may_switch_off_;
    if (!may_switch_off_) compiled_.late_ = {};
    return true;
  }

 private:
  /// One in so many of the steps at most may be switched off: between them a pass runs at speed.
  static constexpr std::size_t kFew = 8;
  using Narrow = CompiledCode<std::uint16_t>;
  using Wide = CompiledCode<std::uint32_t>;
  template <class Index>
  static constexpr std::uint32_t kMost = std::numeric_limits<Index>::max();

  /// The end of the instruction of this number: first what it waits for, then where it is kept.
  struct Value {
    Ref first = 0;               // of its steps' operands; once it is assigned, its slot
    Ref second = 0;              // the same as `first` where there is no other
    std::uint32_t last_use = 0;  // the last instruction that reads it; 0: none
  };

  /// What an instruction is to its device.
  struct Shape {
    LaneId lane{};             // its first, or the first there is
    std::uint16_t device = 0;  // of the lane
    bool own = false;          // no transfer and no sum
    bool on_compute = false;
  };
  Shape shape_of(const Instruction& instruction) const {
    Shape shape;
    if (instruction.lane_count == 0) return shape;
    shape.lane = program_.lanes(instruction).front();
    const OnLane& on = on_[shape.lane];
    shape.device = on.device;
    shape.own = is_own(instruction.op.kind);
    shape.on_compute = shape.own & on.computes;
    return shape;
  }
  static bool is_own(OpKind kind) { return !is_transfer(kind) && !is_collective(kind); }

  /// The first pass: steps have their prices and watches, but no slots yet.
  template <class Index>
  void find_steps(CompiledCode<Index>& code, Predecessors& predecessors) {
    values_.reserve(program_.size());
    code.steps.reserve(program_.size());
    code.watches.reserve(program_.size());
    if (program_.ramp() > 0) batches_.assign(program_.size(), 0);
    std::uint32_t i = 0;
    for (const Instruction& instruction : program_.instructions()) {
      const Shape shape = shape_of(instruction);
      ++compiled_.counts_[index(instruction.cost)];
      compiled_.compute_counts_[index(instruction.cost)] += shape.on_compute;
      on_[shape.lane].note(i, shape.own);
      std::uint32_t watched = zero_price_;
      const std::int32_t batch = may_switch_off_ ? batch_of(instruction) : 0;
      std::size_t by_lanes = 1;
      if (const auto plain = predecessors.plain(i, instruction)) {
        const bool waits = plain->second != plain->first;
        values_.push_back({plain->first, plain->second, 0});
        if (may_switch_off_) may_switch_off_ = !waits | (batches_[plain->second] <= batch);
        values_[plain->first].last_use = values_[plain->second].last_use = i;
        watched = (shape.on_compute & waits) ? price_of(InstructionId{plain->second}) : zero_price_;
      } else {
        const Predecessors::Of& of = predecessors.of(i, instruction);
        by_lanes = of.by_lanes;
        watched = find_joined(code, i, of, shape);
        may_switch_off_ &= waits_hold(instruction, batch);
      }
      if (batch > 0) note_late(instruction, batch, shape, code.steps.size(), by_lanes);
      add_step(code, static_cast<std::uint32_t>(index(instruction.cost)), watched, shape.device);
      ++i;
    }
  }

  /// What it waits for is on whenever it is itself.
  bool waits_hold(const Instruction& instruction, std::int32_t batch) const {
    return std::ranges::all_of(program_.waits(instruction), [&](const Wait& wait) {
      return batch_of(program_[wait.producer]) - std::int64_t{wait.lag} <= batch;
    });
  }

  /// `by_lanes`: what stands before the instruction on its lanes, of which one can be passed on; of
  /// an own op another one, whose end may be the last.
  void note_late(const Instruction& instruction, std::int32_t batch, Shape shape, std::size_t step,
                 std::size_t by_lanes) {
    may_switch_off_ &= batch <= std::numeric_limits<std::uint8_t>::max();
    batches_[values_.size() - 1] = static_cast<std::uint8_t>(batch);
    if (const Ref before = values_.back().first; shape.own && in_body(before))
      may_switch_off_ &= is_own(program_.instructions()[before].op.kind);
    else
      on_[shape.lane].late |= shape.own;
    may_switch_off_ &= by_lanes <= 1 && compiled_.late_.size() < program_.size() / kFew;
    if (!may_switch_off_) return;
    compiled_.late_.push_back({.id = id_at<InstructionId>(values_.size() - 1),
                               .step = static_cast<std::uint32_t>(step),
                               .offset = instruction.op.microbatch,
                               .cost = instruction.cost,
                               .on_compute = shape.on_compute});
  }

  std::int32_t batch_of(const Instruction& instruction) const {
    const std::int32_t m = program_.microbatches(), offset = instruction.op.microbatch;
    return offset < m ? 0 : offset / m;  // divisions are dear, and few are needed
  }

  /// The same for an instruction of any shape; the steps that join its predecessors come first.
  template <class Index>
  std::uint32_t find_joined(CompiledCode<Index>& code, std::uint32_t i, const Predecessors::Of& of,
                            Shape shape) {
    const Ref first = of.all.empty() ? kState | zero_slot_ : of.all[0];
    values_.push_back({first, of.all.size() > 1 ? of.all[1] : first, 0});
    for (const Ref ref : of.all) use(ref, i);
    const std::uint32_t watched = watched_price(of, code.steps.size(), shape);
    for (std::size_t k = 2; k < of.all.size(); ++k) {
      joins_.push_back({i, of.all[k]});
      add_step(code, zero_price_, zero_price_, shape.device);
    }
    return watched;
  }

  /// Steps that add nothing to what is exposed add it to one device after the other: adding to one
  /// and the same would make each wait for the one before.
  template <class Index>
  void add_step(CompiledCode<Index>& code, std::uint32_t cost, std::uint32_t watched,
                std::uint16_t device) {
    idle_device_ = idle_device_ + 1u < compiled_.devices_ ? idle_device_ + 1u : 0;
    const bool idle = watched == zero_price_;
    code.steps.push_back({0, 0, 0, static_cast<Index>(cost)});
    code.watches.push_back(
        {static_cast<Index>(watched), idle ? static_cast<std::uint16_t>(idle_device_) : device});
  }

  void use(Ref ref, std::uint32_t by) {
    if (in_body(ref)) values_[ref].last_use = by;
  }

  /// What a compute op's exposed time is measured by: the price of the one transfer or sum it waits
  /// for; the zero price where there is none, or where a Waiter looks closer.
  std::uint32_t watched_price(const Predecessors::Of& of, std::size_t step, Shape shape) {
    if (of.waits.empty() || of.all.size() < 2 || !shape.on_compute) return zero_price_;
    if (of.waits.size() == 1 && of.all.size() == 2) return price_of(of.waits.front().second);
    compiled_.waiters_.push_back(
        {.step = step,
         .device = shape.device,
         .free = of.all.front(),
         .first_candidate = static_cast<std::uint32_t>(compiled_.candidates_.size()),
         .candidates = static_cast<std::uint32_t>(of.waits.size())});
    for (const auto& [ref, producer] : of.waits)
      compiled_.candidates_.push_back({.awaited = ref, .cost = price_of(producer)});
    return zero_price_;
  }

  /// Of a transfer or a sum; of what neither is the zero price.
  std::uint32_t price_of(InstructionId producer) const {
    const Instruction& awaited = program_[producer];
    const auto cost = static_cast<std::uint32_t>(index(awaited.cost));
    return is_own(awaited.op.kind) ? zero_price_ : cost;
  }

  /// What the next body reads, or whoever looks at a body once it is done.
  void keep_forever() {
    for (const OnLane& on : on_) use(on.last, kForever);
    for (const Wait& wait : compiled_.carry_over_.waits())
      use(static_cast<Ref>(index(wait.producer)), kForever);
    for (const OnLane& on : on_) {
      if (on.first_own == kNobody) continue;
      use(on.first_own, kForever);
      use(on.last_own, kForever);
    }
  }

  /// Values before those of the body: the state, one that stays 0, and the ends of own ops.
  void reserve_slots() {
    next_slot_ = zero_slot_ + 1;
    for (const LaneId lane : ids(program_.lanes())) {
      if (on_[lane].first_own == kNobody) continue;
      const Instruction& first = program_.instructions()[on_[lane].first_own];
      compiled_.own_ops_.push_back({.device = program_.lanes()[lane].device,
                                    .first_cost = first.cost,
                                    .first_offset = first.op.microbatch,
                                    .first = next_slot_,
                                    .last = next_slot_ + 1});
      next_slot_ += 2;
    }
  }

  std::uint32_t slot(Ref ref) const { return in_body(ref) ? values_[ref].first : ref & ~kState; }

  std::uint32_t take_slot() {
    if (free_count_ > 0) return free_[--free_count_];
    free_.push_back(0);  // room to give it back to
    return next_slot_++;
  }

  void release(Ref ref, std::uint32_t by) {
    if (in_body(ref)) free_if(values_[ref].last_use == by, values_[ref].first);
  }
  /// Without a branch: half of all values have another reader still.
  void free_if(bool unread, std::uint32_t slot) {
    free_[free_count_] = slot;
    free_count_ += unread;
  }

  /// The second pass, as far as indices of this width go: an instruction takes two slots at most.
  template <class Index>
  void assign_slots(CompiledCode<Index>& code) {
    for (; next_ < program_.size() && next_slot_ < kMost<Index> - 1; ++next_) {
      Value& value = values_[next_];
      resolve_waiter();
      const std::uint32_t first = slot(value.first);
      std::uint32_t second = slot(value.second);
      const bool joins = next_join_ < joins_.size() && joins_[next_join_].by == next_;
      if (joins) second = join(code, second);
      release(value.first, next_);
      if (value.second != value.first) release(value.second, next_);
      value.first = take_slot();
      set(code, first, second, value.first);
      free_if(value.last_use == 0, value.first);  // nobody reads it
    }
  }

  template <class Index>
  void set(CompiledCode<Index>& code, std::uint32_t first, std::uint32_t second,
           std::uint32_t out) {
    CompiledStep<Index>& step = code.steps[step_++];
    step.first = static_cast<Index>(first);
    step.second = static_cast<Index>(second);
    step.out = static_cast<Index>(out);
  }

  /// Where the later of `second` and of what else the next instruction waits for will be.
  template <class Index>
  std::uint32_t join(CompiledCode<Index>& code, std::uint32_t second) {
    const std::uint32_t joint = take_slot();
    const std::size_t from = next_join_;
    for (; next_join_ < joins_.size() && joins_[next_join_].by == next_; ++next_join_) {
      set(code, second, slot(joins_[next_join_].ref), joint);
      second = joint;
    }
    for (std::size_t k = from; k < next_join_; ++k) release(joins_[k].ref, next_);
    free_if(true, joint);
    return joint;
  }

  void resolve_waiter() {
    if (next_waiter_ == compiled_.waiters_.size()) return;
    CompiledProgram::Waiter& waiter = compiled_.waiters_[next_waiter_];
    if (waiter.step != step_) return;
    ++next_waiter_;
    waiter.free = slot(waiter.free);
    for (std::uint32_t k = 0; k < waiter.candidates; ++k) {
      CompiledProgram::Candidate& candidate = compiled_.candidates_[waiter.first_candidate + k];
      candidate.awaited = slot(candidate.awaited);
    }
  }

  void widen() {
    const auto narrow = std::move(std::get<Narrow>(compiled_.code_));
    Wide wide;
    wide.steps.reserve(narrow.steps.size());
    wide.watches.reserve(narrow.watches.size());
    for (const auto& step : narrow.steps)
      wide.steps.push_back({step.first, step.second, step.out, step.cost});
    for (const auto& watch : narrow.watches) wide.watches.push_back({watch.cost, watch.device});
    compiled_.code_ = std::move(wide);
  }

  /// A row of the state moves by a body from its end on, or it would overwrite itself.
  void add_copies() {
    const CarryOverState& carry_over = compiled_.carry_over_;
    const auto copy = [&](std::size_t to, std::size_t from) {
      if (to != from) compiled_.copies_.push_back({to, from});
    };
    for (std::size_t i = 0; i < carry_over.waits().size(); ++i) {
      const Wait& wait = carry_over.waits()[i];
      for (std::size_t back = wait.lag - 1; back > 0; --back)
        copy(carry_over.row(i) + back, carry_over.row(i) + back - 1);
      copy(carry_over.row(i), slot(static_cast<Ref>(index(wait.producer))));
    }
    for (const LaneId lane : ids(on_)) copy(index(lane), slot(on_[lane].last));
    auto ends = compiled_.own_ops_.begin();
    for (const OnLane& on : on_) {
      if (on.first_own == kNobody) continue;
      copy(ends->first, slot(on.first_own));
      copy(ends->last, slot(on.last_own));
      ++ends;
    }
  }

  /// One of the predecessors, beyond two, of instruction `by`.
  struct Join {
    std::uint32_t by = 0;
    Ref ref = 0;
  };

  const Program& program_;
  CompiledProgram& compiled_;
  const std::uint32_t zero_price_;
  std::uint32_t zero_slot_ = 0, next_slot_ = 0, idle_device_ = 0;
  std::vector<Value> values_;  // of each instruction
  std::vector<Join> joins_;    // ascending by `by`
  OnLanes on_;
  bool may_switch_off_;                // so far
  std::vector<std::uint8_t> batches_;  // that instructions work on in body 0; empty: it alone
  // Of the second pass:
  std::uint32_t next_ = 0;  // instruction
  std::size_t step_ = 0, next_join_ = 0, next_waiter_ = 0;
  std::vector<std::uint32_t> free_;  // as many as slots were taken, and one; the first are free
  std::size_t free_count_ = 0;
};

CompiledProgram::CompiledProgram(const Program& program)
    : carry_over_(program), devices_(program.placement().devices) {
  for (const bool pair_links : {true, false}) {
    if (ProgramCompiler(program, *this).compile(pair_links)) break;
    code_ = {};
    waiters_.clear();
    candidates_.clear();
    late_.clear();
  }
}

}  // namespace tandem
