#include "simulator/engine/simulated_machine.h"

#include <new>
#include <utility>

namespace tandem {

SimulatedMachine::SimulatedMachine(const Program& program, const CostTable& costs,
                                   Timeline* recorder)
    : SimulatedMachine(program, costs, CarryOverState(program), recorder) {}

SimulatedMachine::SimulatedMachine(const Program& program, const CostTable& costs,
                                   CarryOverState carry_over, Timeline* recorder)
    : costs_(costs),
      recorder_(recorder),
      carry_over_(std::move(carry_over)),
      depth_(program.depth()),
      size_(program.size()),
      offset_(program.ramp() + static_cast<std::int64_t>(depth_)),
      last_body_(-offset_),
      free_(program.lanes().size()),
      done_(static_cast<Duration*>(std::calloc(depth_ * size_ + 1, sizeof(Duration)))),
      tallies_(program.placement().devices) {
  if (done_ == nullptr) throw std::bad_alloc();
}

void SimulatedMachine::record(Instance instance, Duration start, Duration end) const {
  recorder_->spans.push_back({instance.id, instance.body, start, end});
}

void SimulatedMachine::tally(const Program& program, Instance instance, Duration free,
                             Duration start, Duration end) {
  const Instruction& instruction = program[instance.id];
  const OpKind kind = instruction.op.kind;
  const LaneId lane = program.lanes(instruction).front();
  DeviceTally& tally = tallies_[program.lanes()[lane].device];
  tally.first_start = std::min(tally.first_start, start);
  tally.last_end = std::max(tally.last_end, end);
  if (program.lanes()[lane].kind != LaneKind::compute) return;
  tally.busy += end - start;
  if (is_useful(kind)) tally.useful += end - start;
  if (start > free) tally.exposed_communication += exposed(program, instance, free, start);
}

Duration SimulatedMachine::exposed(const Program& program, Instance instance, Duration free,
                                   Duration start) const {
  Duration longest{};
  for (const Wait& wait : program.waits(program[instance.id])) {
    if (done(instance.body - wait.lag, wait.producer) != start) continue;
    const Instruction& awaited = program[wait.producer];
    if (!is_transfer(awaited.op.kind) && !is_collective(awaited.op.kind)) continue;
    longest = std::max(longest, std::min(start - free, costs_[awaited.cost]));
  }
  return longest;
}

void SimulatedMachine::append_state(std::int64_t body, std::vector<std::int64_t>& state) const {
  for (const Duration free : free_) state.push_back(free.count());
  // A wait of lag L in a body to come reaches this body and up to L − 1 before it.
  for (const Wait& wait : carry_over_.waits()) {
    for (std::int64_t back = 0; back < wait.lag; ++back)
      state.push_back(done(body - back, wait.producer).count());
  }
}

void SimulatedMachine::restore(std::int64_t body, std::span<const std::int64_t> state,
                               DeviceTallies tallies) {
  tallies_ = std::move(tallies);
  auto next = state.begin();
  for (Duration& free : free_) free = Duration(*next++);
  for (const Wait& wait : carry_over_.waits()) {
    for (std::int64_t back = 0; back < wait.lag; ++back)
      done(body - back, wait.producer) = Duration(*next++);
  }
}

DeviceTallies run_simulated(const Program& program, const CostTable& costs, std::int64_t batches,
                            Timeline* recorder) {
  SimulatedMachine machine(program, costs, recorder);
  run(program, program.order(), batches, machine);
  return machine.tallies();
}

}  // namespace tandem
