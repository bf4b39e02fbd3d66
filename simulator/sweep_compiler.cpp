// Compiles a program to a sweep: who precedes each instruction, until when its end is read, and
// where it is kept that long.

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "simulator/sweep.h"

namespace tandem {

namespace {

/// What precedes an instruction: another one of its body, or a value of the state.
using Ref = std::uint32_t;
constexpr Ref kState = Ref{1} << 31u;
constexpr std::uint32_t kForever = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

constexpr bool in_body(Ref ref) { return (ref & kState) == 0; }

/// Walks the instructions in order and says what each waits for.
class Predecessors {
 public:
  /// `pair_links`: the two ends of a link are one to wait for, on the assumption that they always
  /// hold the same transfers, as they do where lower() made them.
  Predecessors(const Program& program, const Carried& carried, bool pair_links)
      : program_(program),
        carried_(carried),
        pair_links_(pair_links),
        last_waiter_(carried.size(), kNobody) {
    for (const LaneId lane : ids(program.lanes())) {
      last_.push_back(state_of(lane));
      partner_.push_back(lane);
    }
  }

  /// Of an instruction: its lanes' predecessors, the first lane's first, then what it waits for;
  /// each once. Waits that its lane's earlier waits imply are left out.
  struct Of {
    std::vector<Ref> all;
    std::vector<std::pair<Ref, InstructionId>> waits;
  };
  const Of& of(std::uint32_t i, const Instruction& instruction) {
    of_.all.clear();
    of_.waits.clear();
    const auto lanes = program_.lanes(instruction);
    if (pair_links_ && lanes.size() == 2 && is_transfer(instruction.op.kind)) pair(lanes);
    for (const LaneId lane : lanes) {
      add(std::exchange(last_[lane], i));
      pairs_hold_ = pairs_hold_ && std::ranges::count(lanes, partner_[lane]) == 1;
    }
    for (const Wait& wait : program_.waits(instruction)) {
      const Ref ref = wait.lag == 0 ? static_cast<Ref>(index(wait.producer)) : state_of(wait);
      if (!in_body(ref) && !lanes.empty()) {
        const auto lane = static_cast<std::uint32_t>(index(lanes.front()));
        if (std::exchange(last_waiter_[ref & ~kState], lane) == lane) continue;
      }
      add(ref);
      of_.waits.emplace_back(ref, wait.producer);
    }
    return of_;
  }

  /// What nearly all instructions are: on one lane, or on the two ends of a link, and waiting for
  /// one of their own body at most. Theirs without a branch that depends on their kinds, whose mix
  /// no processor foretells.
  struct Plain {
    Ref first, second;  // the same where there is no other
  };
  /// Empty, and nothing done, where the instruction is none of them.
  std::optional<Plain> plain(std::uint32_t i, const Instruction& instruction) {
    const std::uint32_t lanes = instruction.lane_count, waits = instruction.wait_count;
    if (lanes < 1 || lanes > 2 || waits > 1) return std::nullopt;
    const LaneId* const lane = program_.lanes(instruction).data();
    const LaneId one = lane[0], other = lane[lanes - 1];
    const Ref first = last_[one];
    if (first != last_[other] || !in_body(first)) return std::nullopt;
    Ref second = first;
    if (waits == 1) {
      const Wait& wait = program_.waits(instruction).front();
      if (wait.lag > 0) return std::nullopt;
      second = static_cast<Ref>(index(wait.producer));
    }
    last_[one] = last_[other] = i;
    // On a lane with a partner alone, or on two lanes that are no partners.
    if (partner_[one] != other && (partner_[one] != one || partner_[other] != other)) {
      pairs_hold_ = false;
    }
    return Plain{first, second};
  }

  /// Once all are walked: the ends of links that were taken for one did hold the same transfers.
  bool pairs_hold() const { return pairs_hold_; }
  /// Once all are walked: the last on each lane.
  const Table<LaneId, Ref>& last() const { return last_; }

 private:
  /// Of two lanes that nothing was on so far.
  void pair(std::span<const LaneId> lanes) {
    const LaneId sends = lanes[0], receives = lanes[1];
    if (last_[sends] != state_of(sends) || last_[receives] != state_of(receives)) return;
    last_[receives] = last_[sends];
    partner_[sends] = receives;
    partner_[receives] = sends;
  }

  void add(Ref ref) {
    if (std::find(of_.all.begin(), of_.all.end(), ref) == of_.all.end()) of_.all.push_back(ref);
  }
  static Ref state_of(LaneId lane) { return kState | static_cast<Ref>(index(lane)); }
  Ref state_of(const Wait& wait) const {
    return kState | static_cast<Ref>(carried_.place(wait.producer, wait.lag));
  }

  const Program& program_;
  const Carried& carried_;
  const bool pair_links_;
  Of of_;
  Table<LaneId, Ref> last_;
  Table<LaneId, LaneId> partner_;  // the other end of its link; else itself
  bool pairs_hold_ = true;
  std::vector<std::uint32_t> last_waiter_;  // of each value of the state: the lane
};

/// The end of the instruction of this number: first what it waits for, then where it is kept.
struct Value {
  Ref first = 0;               // of its steps' operands; once it is assigned, its slot
  Ref second = 0;              // the same as `first` where there is no other
  std::uint32_t last_use = 0;  // the last instruction that reads it; 0: none
};

}  // namespace

/// Two passes: what each step waits for and until when that is read; then a slot for each value.
class SweepCompiler {
 public:
  SweepCompiler(const Program& program, Sweep& sweep)
      : program_(program),
        sweep_(sweep),
        zero_price_(static_cast<std::uint32_t>(program.cost_keys().size())),
        own_(program.lanes().size()),
        free_(1) {}

  /// False, and all in vain, if the ends of a link turn out to be no pair.
  bool compile(bool pair_links) {
    sweep_.prices_ = zero_price_ + 1;
    sweep_.counts_.assign(program_.cost_keys().size(), 0);
    sweep_.compute_counts_.assign(program_.cost_keys().size(), 0);
    zero_slot_ = static_cast<std::uint32_t>(sweep_.carried_.size());
    if (zero_price_ > kMost<std::uint16_t>) sweep_.code_.emplace<Wide>();
    Predecessors predecessors(program_, sweep_.carried_, pair_links);
    std::visit([&](auto& code) { find_steps(code, predecessors); }, sweep_.code_);
    if (!predecessors.pairs_hold()) return false;
    keep_forever(predecessors);
    reserve_slots();
    if (auto* narrow = std::get_if<Narrow>(&sweep_.code_)) assign_slots(*narrow);
    if (next_ < program_.size()) {
      if (std::holds_alternative<Narrow>(sweep_.code_)) widen();
      assign_slots(std::get<Wide>(sweep_.code_));
    }
    add_copies(predecessors);
    sweep_.values_ = next_slot_;
    return true;
  }

 private:
  using Narrow = SweepCode<std::uint16_t>;
  using Wide = SweepCode<std::uint32_t>;
  template <class Index>
  static constexpr std::uint32_t kMost = std::numeric_limits<Index>::max();

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
    const Lane& lane = program_.lanes()[shape.lane];
    shape.device = static_cast<std::uint16_t>(index(lane.device));
    shape.own = is_own(instruction.op.kind);
    shape.on_compute = shape.own & (lane.kind == LaneKind::compute);
    return shape;
  }
  static bool is_own(OpKind kind) { return !is_transfer(kind) && !is_collective(kind); }

  /// The first pass: steps have their prices and watches, but no slots yet.
  template <class Index>
  void find_steps(SweepCode<Index>& code, Predecessors& predecessors) {
    code.steps.reserve(program_.size());
    code.watches.reserve(program_.size());
    values_.reserve(program_.size());
    std::uint32_t i = 0;
    for (const Instruction& instruction : program_.instructions()) {
      const Shape shape = shape_of(instruction);
      ++sweep_.counts_[index(instruction.cost)];
      sweep_.compute_counts_[index(instruction.cost)] += shape.on_compute;
      own_[shape.lane].note(i, shape.own);
      std::uint32_t watched = zero_price_;
      if (const auto plain = predecessors.plain(i, instruction)) {
        const bool waits = plain->second != plain->first;
        values_.push_back({plain->first, plain->second, 0});
        values_[plain->first].last_use = values_[plain->second].last_use = i;
        watched = shape.on_compute & waits ? price_of(InstructionId{plain->second}) : zero_price_;
      } else {
        watched = find_joined(code, i, predecessors.of(i, instruction), shape);
      }
      add_step(code, static_cast<std::uint32_t>(index(instruction.cost)), watched, shape.device);
      ++i;
    }
  }

  /// The same for an instruction of any shape; the steps that join its predecessors come first.
  template <class Index>
  std::uint32_t find_joined(SweepCode<Index>& code, std::uint32_t i, const Predecessors::Of& of,
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
  void add_step(SweepCode<Index>& code, std::uint32_t cost, std::uint32_t watched,
                std::uint16_t device) {
    idle_device_ = idle_device_ + 1u < sweep_.devices_ ? idle_device_ + 1u : 0;
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
    sweep_.waiters_.push_back(
        {.step = step,
         .device = shape.device,
         .free = of.all.front(),
         .first_candidate = static_cast<std::uint32_t>(sweep_.candidates_.size()),
         .candidates = static_cast<std::uint32_t>(of.waits.size())});
    for (const auto& [ref, producer] : of.waits) {
      sweep_.candidates_.push_back({.awaited = ref, .cost = price_of(producer)});
    }
    return zero_price_;
  }

  /// Of a transfer or a sum; of what neither is the zero price.
  std::uint32_t price_of(InstructionId producer) const {
    const Instruction& awaited = program_[producer];
    const auto cost = static_cast<std::uint32_t>(index(awaited.cost));
    return is_own(awaited.op.kind) ? zero_price_ : cost;
  }

  /// What the next body reads, or whoever looks at a body once it is done.
  void keep_forever(const Predecessors& predecessors) {
    for (const Ref ref : predecessors.last()) use(ref, kForever);
    for (const Wait& wait : sweep_.carried_.waits()) {
      use(static_cast<Ref>(index(wait.producer)), kForever);
    }
    for (const Own& own : own_) {
      if (own.first == kNobody) continue;
      use(own.first, kForever);
      use(own.last, kForever);
    }
  }

  /// Values before those of the body: the state, one that stays 0, and the ends of own ops.
  void reserve_slots() {
    next_slot_ = zero_slot_ + 1;
    for (const LaneId lane : ids(program_.lanes())) {
      if (own_[lane].first == kNobody) continue;
      const CostId cost = program_.instructions()[own_[lane].first].cost;
      sweep_.own_ops_.push_back({program_.lanes()[lane].device, cost, next_slot_, next_slot_ + 1});
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
  void assign_slots(SweepCode<Index>& code) {
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
  void set(SweepCode<Index>& code, std::uint32_t first, std::uint32_t second, std::uint32_t out) {
    SweepStep<Index>& step = code.steps[step_++];
    step.first = static_cast<Index>(first);
    step.second = static_cast<Index>(second);
    step.out = static_cast<Index>(out);
  }

  /// Where the later of `second` and of what else the next instruction waits for will be.
  template <class Index>
  std::uint32_t join(SweepCode<Index>& code, std::uint32_t second) {
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
    if (next_waiter_ == sweep_.waiters_.size()) return;
    Sweep::Waiter& waiter = sweep_.waiters_[next_waiter_];
    if (waiter.step != step_) return;
    ++next_waiter_;
    waiter.free = slot(waiter.free);
    for (std::uint32_t k = 0; k < waiter.candidates; ++k) {
      Sweep::Candidate& candidate = sweep_.candidates_[waiter.first_candidate + k];
      candidate.awaited = slot(candidate.awaited);
    }
  }

  void widen() {
    const auto narrow = std::move(std::get<Narrow>(sweep_.code_));
    Wide wide;
    wide.steps.reserve(narrow.steps.size());
    wide.watches.reserve(narrow.watches.size());
    for (const auto& step : narrow.steps) {
      wide.steps.push_back({step.first, step.second, step.out, step.cost});
    }
    for (const auto& watch : narrow.watches) wide.watches.push_back({watch.cost, watch.device});
    sweep_.code_ = std::move(wide);
  }

  /// A row of the state moves by a body from its end on, or it would overwrite itself.
  void add_copies(const Predecessors& predecessors) {
    const Carried& carried = sweep_.carried_;
    const auto copy = [&](std::size_t to, std::size_t from) {
      if (to != from) sweep_.copies_.push_back({to, from});
    };
    for (std::size_t i = 0; i < carried.waits().size(); ++i) {
      const Wait& wait = carried.waits()[i];
      for (std::size_t back = wait.lag - 1; back > 0; --back) {
        copy(carried.row(i) + back, carried.row(i) + back - 1);
      }
      copy(carried.row(i), slot(static_cast<Ref>(index(wait.producer))));
    }
    for (const LaneId lane : ids(predecessors.last())) {
      copy(index(lane), slot(predecessors.last()[lane]));
    }
    auto ends = sweep_.own_ops_.begin();
    for (const Own& own : own_) {
      if (own.first == kNobody) continue;
      copy(ends->first, slot(own.first));
      copy(ends->last, slot(own.last));
      ++ends;
    }
  }

  /// The first and the last op of a lane that is no transfer and no sum.
  struct Own {
    std::uint32_t first = kNobody, last = kNobody;
    void note(std::uint32_t i, bool own) {
      first = std::min(first, own ? i : kNobody);
      last = own ? i : last;
    }
  };

  /// One of the predecessors, beyond two, of instruction `by`.
  struct Join {
    std::uint32_t by = 0;
    Ref ref = 0;
  };

  const Program& program_;
  Sweep& sweep_;
  const std::uint32_t zero_price_;
  std::uint32_t zero_slot_ = 0, next_slot_ = 0, idle_device_ = 0;
  std::vector<Value> values_;  // of each instruction
  std::vector<Join> joins_;    // ascending by `by`
  Table<LaneId, Own> own_;
  // Of the second pass:
  std::uint32_t next_ = 0;  // instruction
  std::size_t step_ = 0, next_join_ = 0, next_waiter_ = 0;
  std::vector<std::uint32_t> free_;  // as many as slots were taken, and one; the first are free
  std::size_t free_count_ = 0;
};

Sweep::Sweep(const Program& program) : carried_(program), devices_(program.placement().devices) {
  for (const bool pair_links : {true, false}) {
    if (SweepCompiler(program, *this).compile(pair_links)) break;
    code_ = {};
    waiters_.clear();
    candidates_.clear();
  }
}

}  // namespace tandem
