#include "simulator/simulated_machine.h"

#include <algorithm>

namespace tandem {

SimulatedMachine::SimulatedMachine(const Program& program, const CostTable& costs,
                                   Timeline* recorder)
    : costs_(costs),
      recorder_(recorder),
      depth_(program.depth()),
      size_(program.size()),
      offset_(program.ramp() + static_cast<std::int64_t>(program.depth())),
      free_(program.lanes().size()),
      done_(program.depth() * program.size()),
      tallies_(program.placement().devices) {
  find_sums(program);
  for (const Instruction& instruction : program.instructions()) {
    for (const Wait& wait : program.waits(instruction)) {
      if (wait.lag == 0) continue;
      carried_.push_back(wait);
      carried_.push_back({behind_[wait.producer], wait.lag});
    }
  }
  std::sort(carried_.begin(), carried_.end());
  carried_.erase(std::unique(carried_.begin(), carried_.end()), carried_.end());
}

void SimulatedMachine::find_sums(const Program& program) {
  Table<LaneId, InstructionId> before(program.lanes().size());
  for (const InstructionId id : program.order()) {
    behind_.push_back(id);
    const Instruction& instruction = program[id];
    for (const LaneId lane : program.lanes(instruction)) {
      const bool off_compute = program.lanes()[lane].kind == LaneKind::collective;
      if (instruction.op.kind == OpKind::update && off_compute) {
        behind_[id] = behind_[before[lane]];
      }
      before[lane] = id;
    }
  }
}

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
    const InstructionId runs = behind_[wait.producer];
    const OpKind kind = program[runs].op.kind;
    if (!is_transfer(kind) && !is_collective(kind)) continue;
    const Duration end = done(body, runs);
    longest = std::max(longest, end - std::max(free, end - costs_[program[runs].cost]));
  }
  return longest;
}

void SimulatedMachine::append_state(std::int64_t body, std::vector<Duration>& state) const {
  for (const Duration free : free_) state.push_back(free);
  // A wait of lag L in a body to come reaches this body and up to L − 1 before it.
  for (const Wait& wait : carried_) {
    for (std::int64_t back = 0; back < wait.lag; ++back)
      state.push_back(done(body - back, wait.producer));
  }
}

void SimulatedMachine::skip(std::int64_t cycles, std::int64_t bodies, Duration advance,
                            const Table<DeviceId, DeviceTally>& per_cycle) {
  const Duration all = advance * cycles;
  for (Duration& free : free_) free += all;
  std::vector<Duration> moved(done_.size());
  for (std::uint64_t row = 0; row < depth_; ++row) {
    const std::uint64_t target = (row + static_cast<std::uint64_t>(bodies)) % depth_;
    for (std::size_t i = 0; i < size_; ++i)
      moved[target * size_ + i] = done_[row * size_ + i] + all;
  }
  done_ = std::move(moved);
  for (const DeviceId device : ids(tallies_)) {
    DeviceTally& tally = tallies_[device];
    tally.busy += per_cycle[device].busy * cycles;
    tally.useful += per_cycle[device].useful * cycles;
    tally.exposed_communication += per_cycle[device].exposed_communication * cycles;
    tally.last_end += all;
  }
}

}  // namespace tandem
