#pragma once
// SimulatedMachine: the definition of simulated time. An instruction starts when its lanes are free
// and its waits are done, and ends its price later. Everything the simulator reports is read off
// this machine, or off a CompiledProgram (simulator/compiled/), which must equal it.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "core/program/cost.h"
#include "core/program/program.h"
#include "core/program/run.h"
#include "core/program/timeline.h"
#include "simulator/engine/carry_over_state.h"

namespace tandem {

/// What one device did so far.
struct DeviceTally {
  Duration busy{};    // its compute lane was occupied
  Duration useful{};  // of it, forward and backward; recomputation and updates are not
  Duration exposed_communication{};  // its compute lane stood still while the transfer or sum it
                                     // waited for ran
  Duration first_start = Duration::max(), last_end{};  // of its own ops, not of what links carry
  friend bool operator==(const DeviceTally&, const DeviceTally&) = default;
};
using DeviceTallies = Table<DeviceId, DeviceTally>;

/// Of the last own op of any device.
inline Duration last_end(const DeviceTallies& tallies) {
  return std::ranges::max(tallies, {}, &DeviceTally::last_end).last_end;
}

class SimulatedMachine {
 public:
  /// `recorder`: every span is appended to it; may be null. Both references must outlive the
  /// machine.
  SimulatedMachine(const Program& program, const CostTable& costs, Timeline* recorder = nullptr);
  /// The same where the program's CarryOverState is at hand.
  SimulatedMachine(const Program& program, const CostTable& costs, CarryOverState carry_over,
                   Timeline* recorder = nullptr);

  void issue(const Program& program, Instance instance) {
    if (instance.body != last_body_) {
      last_row_ = row(instance.body);
      last_body_ = instance.body;
    }
    const Instruction& instruction = program[instance.id];
    Duration free{};
    for (const LaneId lane : program.lanes(instruction)) free = std::max(free, free_[lane]);
    Duration start = free;
    for (const Wait& wait : program.waits(instruction))
      start = std::max(start, done(instance.body - wait.lag, wait.producer));
    const Duration end = start + costs_[instruction.cost];
    if (recorder_ != nullptr) record(instance, start, end);
    const OpKind kind = instruction.op.kind;
    if (!is_transfer(kind) && !is_collective(kind)) tally(program, instance, free, start, end);
    for (const LaneId lane : program.lanes(instruction)) free_[lane] = end;
    done(instance.body, instance.id) = end;
  }

  const DeviceTallies& tallies() const { return tallies_; }

  /// Everything that the future depends on after `body` is issued, as CarryOverState has it.
  void append_state(std::int64_t body, std::vector<std::int64_t>& state) const;

  /// As if a run had come to the end of `body` with this state and these tallies. REQUIRES: nothing
  /// was issued yet.
  void restore(std::int64_t body, std::span<const std::int64_t> state, DeviceTallies tallies);

 private:
  /// The row of a body: mostly that of the one whose instances are issued, or of one before it.
  std::size_t row(std::int64_t body) const {
    if (body != last_body_) {
      const std::int64_t back = last_body_ - body;
      if (back > 0 && back <= static_cast<std::int64_t>(last_row_))
        return last_row_ - static_cast<std::size_t>(back);
      return static_cast<std::uint64_t>(body + offset_) % depth_;
    }
    return last_row_;
  }
  Duration& done(std::int64_t body, InstructionId id) {
    return done_[row(body) * size_ + index(id)];
  }
  const Duration& done(std::int64_t body, InstructionId id) const {
    return const_cast<SimulatedMachine*>(this)->done(body, id);
  }
  void record(Instance instance, Duration start, Duration end) const;
  /// Of an own op of its device.
  void tally(const Program& program, Instance instance, Duration free, Duration start,
             Duration end);
  /// Of the time from `free` to `start`, while the compute lane stood still, the part in which the
  /// transfer or sum ran that let the instance start.
  Duration exposed(const Program& program, Instance instance, Duration free, Duration start) const;

  const CostTable& costs_;
  Timeline* recorder_;
  CarryOverState carry_over_;
  std::uint64_t depth_;
  std::size_t size_;
  std::int64_t offset_;  // makes body + offset_ non-negative
  std::int64_t last_body_;
  std::size_t last_row_ = 0;  // of last_body_
  Table<LaneId, Duration> free_;
  struct Free {
    void operator()(Duration* rows) const { std::free(rows); }
  };
  /// A ring of `depth_` bodies, all 0: by calloc(), which of a large one touches nothing.
  std::unique_ptr<Duration[], Free> done_;
  DeviceTallies tallies_;
};

/// A run of `batches` from time 0. `recorder` may be null.
DeviceTallies run_simulated(const Program& program, const CostTable& costs, std::int64_t batches,
                            Timeline* recorder = nullptr);

}  // namespace tandem
