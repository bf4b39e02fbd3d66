#pragma once
// CompiledRun: a run of any length, body by body. The CompiledProgram runs all bodies it
// can, SimulatedMachine those before body 0, and at the end those in which the CompiledProgram
// can't switch instances off.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "simulator/compiled/compiled_program.h"
#include "simulator/engine/simulated_machine.h"

namespace tandem {

class CompiledRun {
 public:
  /// Everything must outlive it. `compiled` is made of `program`. Throws InputError when the clock
  /// can't hold a body.
  CompiledRun(const Program& program, const CompiledProgram& compiled, const CostTable& costs);

  /// Batches of a run without an end.
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int32_t>::max();

  /// Runs the bodies up to and with `last` of a run of `batches`. With `tally` it also keeps count
  /// of what devices did; a run that ever does must do so from its start to where it is asked.
  /// Throws InputError before the clock ends.
  void run_to(std::int64_t last, std::int64_t batches, bool tally);

  /// The body that was run last; −ramp − 1 at the start.
  std::int64_t body() const { return body_; }
  /// As CarryOverState has it.
  std::span<const std::int64_t> state() const {
    return std::span(values_).first(compiled_->carry_over().size());
  }
  /// The clock holds the next body, whenever it begins and whatever waits in it.
  bool can_go_on() { return holds(1); }
  /// Of the bodies run with `tally`.
  const DeviceTallies& tallies() const { return tallies_; }

  /// As if `cycles` more repetitions of `bodies` bodies had passed, each advancing all times by
  /// `advance` and adding `per_cycle` to the tallies. Throws InputError where the clock ends
  /// before.
  void skip(std::int64_t cycles, std::int64_t bodies, Duration advance,
            const DeviceTallies& per_cycle);

 private:
  bool can_run_compiled(std::int64_t body, std::int64_t batches) const;
  void run_compiled(std::int64_t batches, bool tally);
  void run_issued(std::int64_t last, std::int64_t batches);
  void tally_body(std::int64_t end);
  bool holds(std::int64_t bodies);
  std::int64_t latest() const;

  const Program* program_;
  const CompiledProgram* compiled_;
  const CostTable* table_;
  std::vector<std::int64_t> costs_, values_, exposed_;
  DeviceTallies tallies_, of_body_;  // of_body_: busy and useful time of a whole body
  std::int64_t alone_ = 0;   // no body ends later than this after the last end of those before it
  std::int64_t held_until_;  // a body up to which the clock surely goes
  std::int64_t body_;
};

}  // namespace tandem
