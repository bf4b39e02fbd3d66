#include "simulator/simulated_machine.h"

#include <algorithm>
#include <utility>

namespace tandem {

namespace {

/// Bodies whose completions are read: those of the waits, and of the sums behind awaited updates.
std::uint64_t remembered(const Program& program, const Carried& carried) {
  std::uint64_t depth = program.depth();
  for (const Wait& wait : carried.waits()) depth = std::max<std::uint64_t>(depth, wait.lag + 1u);
  return depth;
}

}  // namespace

SimulatedMachine::SimulatedMachine(const Program& program, const CostTable& costs,
                                   Timeline* recorder)
    : SimulatedMachine(program, costs, Carried(program), recorder) {}

SimulatedMachine::SimulatedMachine(const Program& program, const CostTable& costs, Carried carried,
                                   Timeline* recorder)
    : costs_(costs),
      recorder_(recorder),
      carried_(std::move(carried)),
      depth_(remembered(program, carried_)),
      size_(program.size()),
      offset_(program.ramp() + static_cast<std::int64_t>(depth_)),
      last_body_(-offset_),
      free_(program.lanes().size()),
      done_(depth_ * program.size()),
      tallies_(program.placement().devices) {}

void SimulatedMachine::tally(const Program& program, Instance instance, Duration free,
                             Duration start, Duration end) {
  const Instruction& instruction = program[instance.id];
  const OpKind kind = instruction.op.kind;
  if (recorder_ != nullptr) recorder_->spans.push_back({instance.id, instance.body, start, end});
  if (is_transfer(kind) || is_collective(kind)) return;
  const LaneId lane = program.lanes(instruction).front();
  DeviceTally& tally = tallies_[program.lanes()[lane].device];
  tally.first_start = std::min(tally.first_start, start);
  tally.last_end = std::max(tally.last_end, end);
  if (program.lanes()[lane].kind != LaneKind::compute) return;
  tally.busy += end - start;
  if (is_compute(kind) && kind != OpKind::recompute) tally.useful += end - start;
  if (start > free) tally.exposed_communication += exposed(program, instance, free, start);
}

Duration SimulatedMachine::exposed(const Program& program, Instance instance, Duration free,
                                   Duration start) const {
  Duration longest{};
  for (const Wait& wait : program.waits(program[instance.id])) {
    const std::int64_t body = instance.body - wait.lag;
    if (done(body, wait.producer) != start) continue;
    // An update off the compute lane hides a sum behind itself: that is what stands in the way.
    const Wait runs = carried_.behind(wait.producer);
    const Instruction& instruction = program[runs.producer];
    if (!is_transfer(instruction.op.kind) && !is_collective(instruction.op.kind)) continue;
    const Duration end = done(body - runs.lag, runs.producer);
    longest = std::max(longest, end - std::max(free, end - costs_[instruction.cost]));
  }
  return longest;
}

void SimulatedMachine::append_state(std::int64_t body, std::vector<std::int64_t>& state) const {
  for (const Duration free : free_) state.push_back(free.count());
  // A wait of lag L in a body to come reaches this body and up to L − 1 before it.
  for (const Wait& wait : carried_.waits()) {
    for (std::int64_t back = 0; back < wait.lag; ++back)
      state.push_back(done(body - back, wait.producer).count());
  }
}

void SimulatedMachine::restore(std::int64_t body, std::span<const std::int64_t> state,
                               DeviceTallies tallies) {
  tallies_ = std::move(tallies);
  std::fill(done_.begin(), done_.end(), Duration{});
  auto next = state.begin();
  for (Duration& free : free_) free = Duration(*next++);
  for (const Wait& wait : carried_.waits()) {
    for (std::int64_t back = 0; back < wait.lag; ++back)
      done(body - back, wait.producer) = Duration(*next++);
  }
}

}  // namespace tandem
