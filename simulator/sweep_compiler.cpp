// Compiles a program to a sweep: who precedes each instruction, until when its end is read, and
// where it is kept that long.

#include <algorithm>
#include <limits>
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

/// Lanes that always hold the same instructions, such as the two ends of a link, are one to wait
/// for: of each lane, the first that is its like.
Table<LaneId, LaneId> like_lanes(const Program& program) {
  Table<LaneId, LaneId> like(program.lanes().size());
  std::vector<bool> seen(like.size(), false), alone(like.size(), false);
  for (const LaneId lane : ids(like)) like[lane] = lane;
  for (const Instruction& instruction : program.instructions()) {
    const auto lanes = program.lanes(instruction);
    for (const LaneId lane : lanes) {
      const LaneId other = lanes.size() == 2 ? lanes[lane == lanes[0] ? 1 : 0] : lane;
      if (!seen[index(lane)]) like[lane] = other;
      if (like[lane] != other) alone[index(lane)] = alone[index(like[lane])] = true;
      seen[index(lane)] = true;
    }
  }
  for (const LaneId lane : ids(like)) {
    if (alone[index(lane)] || alone[index(like[lane])] || like[like[lane]] != lane) {
      like[lane] = lane;
    }
  }
  for (const LaneId lane : ids(like)) like[lane] = std::min(lane, like[lane]);
  return like;
}

/// Walks the instructions in order and says what each waits for.
class Predecessors {
 public:
  Predecessors(const Program& program, const Carried& carried, const Table<LaneId, LaneId>& like)
      : program_(program), carried_(carried), last_waiter_(carried.size(), kNobody) {
    for (const LaneId lane : like) {
      last_.push_back(kState | static_cast<Ref>(index(lane)));
    }
  }

  /// Of the next instruction: its lanes' predecessors, the first lane's first, then what it waits
  /// for; each once. Waits that its lane's earlier waits imply are left out.
  struct Of {
    std::vector<Ref> all;
    std::vector<std::pair<Ref, Wait>> waits;
  };
  const Of& next() {
    const Instruction& instruction = program_.instructions()[next_];
    of_.all.clear();
    of_.waits.clear();
    const auto lanes = program_.lanes(instruction);
    for (const LaneId lane : lanes) {
      add(last_[lane]);
      last_[lane] = next_;
    }
    for (const Wait& wait : program_.waits(instruction)) {
      const Ref ref = wait.lag == 0 ? static_cast<Ref>(index(wait.producer)) : state(wait);
      if (!in_body(ref) && !lanes.empty()) {
        const auto lane = static_cast<std::uint32_t>(index(lanes.front()));
        if (std::exchange(last_waiter_[ref & ~kState], lane) == lane) continue;
      }
      add(ref);
      of_.waits.emplace_back(ref, wait);
    }
    ++next_;
    return of_;
  }

  /// Where a completion of an earlier body, or of this one, is found.
  Ref find(InstructionId producer, std::uint32_t lag) {
    return lag == 0 ? static_cast<Ref>(index(producer)) : state({producer, lag});
  }
  /// Once all are walked: the last on each lane.
  const Table<LaneId, Ref>& last() const { return last_; }

 private:
  void add(Ref ref) {
    if (std::find(of_.all.begin(), of_.all.end(), ref) == of_.all.end()) of_.all.push_back(ref);
  }
  Ref state(const Wait& wait) const {
    return kState | static_cast<Ref>(carried_.place(wait.producer, wait.lag));
  }

  const Program& program_;
  const Carried& carried_;
  std::uint32_t next_ = 0;
  Of of_;
  Table<LaneId, Ref> last_;
  std::vector<std::uint32_t> last_waiter_;  // of each value of the state: the lane
};

}  // namespace

class SweepCompiler {
 public:
  SweepCompiler(const Program& program, Sweep& sweep)
      : program_(program),
        sweep_(sweep),
        zero_price_(static_cast<std::uint32_t>(program.cost_keys().size())),
        like_(like_lanes(program)),
        own_(program.lanes().size()) {}

  void compile() {
    sweep_.prices_ = zero_price_ + 1;
    sweep_.counts_.assign(program_.cost_keys().size(), 0);
    sweep_.compute_counts_.assign(program_.cost_keys().size(), 0);
    find_last_uses();
    reserve();
    Predecessors predecessors(program_, sweep_.carried_, like_);
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      compile_one(i, predecessors.next(), predecessors);
    }
    add_copies(predecessors);
    sweep_.values_ = next_slot_;
  }

 private:
  bool on_compute(const Instruction& instruction) const {
    return is_own(instruction.op.kind) && instruction.lane_count > 0 &&
           program_.lanes()[program_.lanes(instruction).front()].kind == LaneKind::compute;
  }
  static bool is_own(OpKind kind) { return !is_transfer(kind) && !is_collective(kind); }
  bool communicates(InstructionId id) const { return !is_own(program_[id].op.kind); }

  void find_last_uses() {
    last_use_.assign(program_.size(), 0);
    Predecessors predecessors(program_, sweep_.carried_, like_);
    const auto use = [&](Ref ref, std::uint32_t by) {
      if (in_body(ref)) last_use_[ref] = by;
    };
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      const Predecessors::Of& of = predecessors.next();
      for (const Ref ref : of.all) use(ref, i);
      for (const auto& [ref, wait] : of.waits) {
        const Wait runs = sweep_.carried_.behind(wait.producer);
        if (runs.producer != wait.producer) {
          use(predecessors.find(runs.producer, wait.lag + runs.lag), i);
        }
      }
      note_own(i);
    }
    for (const Ref ref : predecessors.last()) use(ref, kForever);
    for (const Wait& wait : sweep_.carried_.waits())
      use(static_cast<Ref>(index(wait.producer)), kForever);
    for (const Own& own : own_) {
      if (own.first == kNobody) continue;
      use(own.first, kForever);
      use(own.last, kForever);
    }
  }

  void note_own(std::uint32_t i) {
    const Instruction& instruction = program_.instructions()[i];
    ++sweep_.counts_[index(instruction.cost)];
    if (!is_own(instruction.op.kind) || instruction.lane_count == 0) return;
    if (on_compute(instruction)) ++sweep_.compute_counts_[index(instruction.cost)];
    Own& own = own_[program_.lanes(instruction).front()];
    if (own.first == kNobody) own.first = i;
    own.last = i;
  }

  /// Values before those of the body: the state, one that stays 0, and the ends of own ops.
  void reserve() {
    next_slot_ = static_cast<std::uint32_t>(sweep_.carried_.size());
    zero_slot_ = next_slot_++;
    for (const LaneId lane : ids(program_.lanes())) {
      if (own_[lane].first == kNobody) continue;
      const CostId cost = program_.instructions()[own_[lane].first].cost;
      sweep_.own_ops_.push_back({program_.lanes()[lane].device, cost, next_slot_, next_slot_ + 1});
      next_slot_ += 2;
    }
    slot_.assign(program_.size(), 0);
    auto& code = std::get<SweepCode<std::uint16_t>>(sweep_.code_);
    code.steps.reserve(program_.size());
    code.watches.reserve(program_.size());
  }

  std::uint32_t slot(Ref ref) const { return in_body(ref) ? slot_[ref] : ref & ~kState; }

  std::uint32_t take_slot() {
    if (free_.empty()) return next_slot_++;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void release(Ref ref, std::uint32_t by) {
    if (!in_body(ref) || last_use_[ref] != by) return;
    last_use_[ref] = kForever;
    free_.push_back(slot_[ref]);
  }

  void compile_one(std::uint32_t i, const Predecessors::Of& of, Predecessors& predecessors) {
    const Instruction& instruction = program_.instructions()[i];
    const std::uint32_t price = watched_price(i, of, predecessors);
    std::uint32_t first = zero_slot_, second = zero_slot_;
    if (!of.all.empty()) first = second = slot(of.all[0]);
    if (of.all.size() > 1) second = slot(of.all[1]);
    if (of.all.size() > 2) {
      const std::uint32_t joint = take_slot();
      for (std::size_t k = 2; k < of.all.size(); ++k) {
        emit({second, slot(of.all[k]), joint, zero_price_}, zero_price_, i);
        second = joint;
      }
      free_.push_back(joint);
    }
    for (const Ref ref : of.all) release(ref, i);
    for (const auto& [ref, wait] : of.waits) {
      const Wait runs = sweep_.carried_.behind(wait.producer);
      if (runs.producer == wait.producer) continue;
      release(predecessors.find(runs.producer, wait.lag + runs.lag), i);
    }
    slot_[i] = take_slot();
    const auto cost = static_cast<std::uint32_t>(index(instruction.cost));
    emit({first, second, slot_[i], cost}, price, i);
    if (last_use_[i] == 0) free_.push_back(slot_[i]);  // nobody reads it
  }

  /// What a compute op's exposed time is measured by: the price of the one transfer or sum it waits
  /// for; the zero price where there is none, or where a Waiter looks closer.
  std::uint32_t watched_price(std::uint32_t i, const Predecessors::Of& of,
                              Predecessors& predecessors) {
    const Instruction& instruction = program_.instructions()[i];
    if (!on_compute(instruction) || of.waits.empty() || of.all.size() < 2) return zero_price_;
    const auto runs = [&](const Wait& wait) { return sweep_.carried_.behind(wait.producer); };
    const Wait& one = of.waits.front().second;
    if (of.waits.size() == 1 && of.all.size() == 2 && runs(one).producer == one.producer) {
      if (!communicates(one.producer)) return zero_price_;
      return static_cast<std::uint32_t>(index(program_[one.producer].cost));
    }
    Sweep::Waiter waiter{.step = emitted_,
                         .device = device_of(instruction),
                         .free = slot(of.all.front()),
                         .first_candidate = static_cast<std::uint32_t>(sweep_.candidates_.size()),
                         .candidates = static_cast<std::uint32_t>(of.waits.size())};
    for (const auto& [ref, wait] : of.waits) {
      const Wait what = runs(wait);
      const Ref runs_ref = what.producer == wait.producer
                               ? ref
                               : predecessors.find(what.producer, wait.lag + what.lag);
      sweep_.candidates_.push_back(
          {.awaited = slot(ref),
           .runs = slot(runs_ref),
           .cost = static_cast<std::uint32_t>(index(program_[what.producer].cost)),
           .communicates = communicates(what.producer)});
    }
    sweep_.waiters_.push_back(waiter);
    return zero_price_;
  }

  std::uint16_t device_of(const Instruction& instruction) const {
    const LaneId lane = program_.lanes(instruction).front();
    return static_cast<std::uint16_t>(index(program_.lanes()[lane].device));
  }

  /// Steps that add nothing add it to one device after the other: adding to one and the same would
  /// make each wait for the one before.
  void emit(SweepStep<std::uint32_t> step, std::uint32_t watched, std::uint32_t i) {
    const auto device = watched == zero_price_ ? static_cast<std::uint16_t>(i % sweep_.devices_)
                                               : device_of(program_.instructions()[i]);
    ++emitted_;
    constexpr std::uint32_t kNarrow = std::numeric_limits<std::uint16_t>::max();
    if (auto* code = std::get_if<SweepCode<std::uint16_t>>(&sweep_.code_)) {
      if (std::max({step.first, step.second, step.out, zero_price_}) <= kNarrow) {
        const auto narrow = [](std::uint32_t wide) { return static_cast<std::uint16_t>(wide); };
        code->steps.push_back(
            {narrow(step.first), narrow(step.second), narrow(step.out), narrow(step.cost)});
        code->watches.push_back({narrow(watched), device});
        return;
      }
      widen();
    }
    auto& code = std::get<SweepCode<std::uint32_t>>(sweep_.code_);
    code.steps.push_back(step);
    code.watches.push_back({watched, device});
  }

  void widen() {
    const auto narrow = std::move(std::get<SweepCode<std::uint16_t>>(sweep_.code_));
    SweepCode<std::uint32_t> wide;
    wide.steps.reserve(program_.size());
    wide.watches.reserve(program_.size());
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
      copy(carried.row(i), slot_[index(wait.producer)]);
    }
    for (const LaneId lane : ids(predecessors.last())) {
      copy(index(lane), slot(predecessors.last()[lane]));
    }
    auto ends = sweep_.own_ops_.begin();
    for (const Own& own : own_) {
      if (own.first == kNobody) continue;
      copy(ends->first, slot_[own.first]);
      copy(ends->last, slot_[own.last]);
      ++ends;
    }
  }

  /// The first and the last op of a lane that is no transfer and no sum.
  struct Own {
    std::uint32_t first = kNobody, last = kNobody;
  };

  const Program& program_;
  Sweep& sweep_;
  const std::uint32_t zero_price_;
  const Table<LaneId, LaneId> like_;
  std::uint32_t zero_slot_ = 0, next_slot_ = 0;
  std::size_t emitted_ = 0;
  std::vector<std::uint32_t> last_use_, slot_;  // of each instruction
  std::vector<std::uint32_t> free_;
  Table<LaneId, Own> own_;
};

Sweep::Sweep(const Program& program) : carried_(program), devices_(program.placement().devices) {
  SweepCompiler(program, *this).compile();
}

}  // namespace tandem
