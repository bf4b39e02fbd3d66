#pragma once
// CompiledProgram: a program compiled, once and for any number of cost tables, to steps of two
// predecessors.
//
// Lanes are in order and known beforehand, so "when its lanes are free" means "when what stands
// before it on them has ended", and nearly every instruction then waits for at most two others. A
// join of three or more takes steps that cost nothing. What earlier bodies left stands before the
// body's own values, so that the loop knows no lane, no lag and no microbatch: a step is
//   values[out] = max(values[first], values[second]) + costs[cost].
// A value's slot is taken again once its last reader is done, so that the values of a body of
// millions of steps fit a near cache.
//
// It runs bodies from 0 on, in a pass over each. Where instances are switched off because the run
// ends before their batch, they leave their lanes as they were; and since all that waits for them
// is switched off too, nobody sees more of them. Where that is not so, and before body 0, the
// machine that defines simulated time runs the body (simulator/compiled/compiled_run.h).

#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "core/program/cost.h"
#include "core/program/program.h"
#include "simulator/compiled/noise.h"
#include "simulator/engine/carry_over_state.h"

namespace tandem {

template <class Index>
struct CompiledStep {
  Index first, second, out, cost;
};

/// Of a step that ends a compute op: what of the time from `first` to `second` is exposed.
template <class Index>
struct CompiledWatch {
  Index cost;            // of the transfer or sum that it waits for; the last, 0, where none
  std::uint16_t device;  // whose time it is
};

/// Indices are as narrow as they may be: a step of four two-byte ones is half as much to read.
template <class Index>
struct CompiledCode {
  std::vector<CompiledStep<Index>> steps;
  std::vector<CompiledWatch<Index>> watches;  // a step each
};

class CompiledProgram {
 public:
  explicit CompiledProgram(const Program& program);

  const CarryOverState& carry_over() const { return carry_over_; }
  std::size_t devices() const { return devices_; }
  /// Steps of a body: the instructions, and what joins take.
  std::size_t steps() const;
  /// Values that a run needs. The first carry_over().size() are the state between bodies; all begin
  /// as 0.
  std::size_t values() const { return values_; }
  /// Nanoseconds by cost id, and a last 0: what the bodies below take.
  std::vector<std::int64_t> costs(const CostTable& table) const;

  /// Runs a body all of whose instances are on. REQUIRES: `values` and `costs` as above.
  void run_body(std::span<std::int64_t> values, std::span<const std::int64_t> costs) const;

  /// The same, and adds to each device's exposed communication
  /// (simulator/engine/simulated_machine.h). Instances whose offset is `end` or more are switched
  /// off. REQUIRES: an `end` that switches any off only where can_switch_off().
  void run_body(std::span<std::int64_t> values, std::span<const std::int64_t> costs,
                std::span<std::int64_t> exposed, std::int64_t end = kNoEnd) const;
  static constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

  /// An instruction that works on a later batch than its body's.
  struct Late {
    InstructionId id{};
    std::uint32_t step = 0;
    std::int32_t offset = 0;
    CostId cost{};
    bool on_compute = false;  // its lane is a compute lane
  };
  /// They are few, on lanes that can be left as they were, and no earlier batch waits for them.
  bool can_switch_off() const { return can_switch_off_; }
  /// Empty unless can_switch_off().
  const std::vector<Late>& late() const { return late_; }

  /// The same for kTables cost tables at once: value i of table k stands at i · kTables + k, and so
  /// do prices.
  static constexpr std::size_t kTables = 8;
  void run_bodies(std::span<std::int64_t> values, std::span<const std::int64_t> costs) const;
  /// The same with noise: instruction i takes its price in table k as jitter.time() varies it by
  /// number i + 1 of the table's stream. REQUIRES: prices within jitter's reach.
  void run_bodies(std::span<std::int64_t> values, std::span<const std::int64_t> costs,
                  std::span<const std::uint64_t, kTables> streams,
                  const noise::Jitter& jitter) const;

  /// A device's own ops on one lane, of which a run keeps the first and the last end in a body.
  struct OwnOps {
    DeviceId device{};
    CostId first_cost{};
    std::int32_t first_offset = 0;
    std::size_t first = 0, last = 0;  // values, after a body
  };
  const std::vector<OwnOps>& own_ops() const { return own_ops_; }
  /// How often a body has each price, by cost id: in all, and on compute lanes.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  const std::vector<std::int64_t>& compute_counts() const { return compute_counts_; }

 private:
  friend class ProgramCompiler;

  /// A compute op that waits for several. Looked at before its step.
  struct Waiter {
    std::size_t step = 0;
    std::uint16_t device = 0;
    std::uint32_t free = 0;  // value: when its lane is free
    std::uint32_t first_candidate = 0, candidates = 0;
  };
  struct Candidate {
    std::uint32_t awaited = 0;  // value
    std::uint32_t cost = 0;     // of what ends in it; the last, 0, where that is no transfer or sum
  };
  struct Copy {
    std::size_t to, from;
  };

  void add_exposed(const Waiter& waiter, std::span<const std::int64_t> values,
                   std::span<const std::int64_t> costs, std::span<std::int64_t> exposed) const;
  template <class Times>
  void run_tables_by(std::span<std::int64_t> values, std::span<const std::int64_t> costs,
                     const Times& times) const;
  void copy_state(std::span<std::int64_t> values, std::size_t tables) const;

  CarryOverState carry_over_;
  std::size_t devices_, values_ = 0, prices_ = 0;
  std::variant<CompiledCode<std::uint16_t>, CompiledCode<std::uint32_t>> code_;
  std::vector<Waiter> waiters_;  // ascending by step
  std::vector<Candidate> candidates_;
  std::vector<Late> late_;  // ascending by step
  bool can_switch_off_ = true;
  std::vector<Copy> copies_;  // from the body's values to what the next one finds, in this order
  std::vector<OwnOps> own_ops_;
  std::vector<std::int64_t> counts_, compute_counts_;
};

}  // namespace tandem
