#include "simulator/compiled/compiled_run.h"

#include <algorithm>
#include <ranges>

#include "core/base/error.h"

namespace tandem {

static constexpr std::int64_t kClock = std::numeric_limits<std::int64_t>::max() / 2;

[[noreturn]] static void refuse_length() {
  throw InputError(
      "the run is too long to count in nanoseconds (292 years): fewer batches, or smaller costs");
}

/// From the first start of a body to its last end where no other body overlaps it.
static long double body_alone(const Program& program, const CostTable& costs) {
  Table<InstructionId, long double> end(program.size());
  Table<LaneId, long double> free(program.lanes().size());
  long double last = 0.0L;
  for (const InstructionId id : program.order()) {
    const Instruction& instruction = program[id];
    long double start = 0.0L;
    for (const LaneId lane : program.lanes(instruction)) start = std::max(start, free[lane]);
    for (const Wait& wait : program.waits(instruction)) {
      if (wait.lag == 0) start = std::max(start, end[wait.producer]);
    }
    end[id] = start + static_cast<long double>(costs[instruction.cost].count());
    for (const LaneId lane : program.lanes(instruction)) free[lane] = end[id];
    last = std::max(last, end[id]);
  }
  return last;
}

/// body_alone(), or the work of all devices where that is quicker to say and little enough.
static std::int64_t longest_body(const Program& program, const CompiledProgram& compiled,
                                 const CostTable& costs) {
  constexpr long double kLittle = 0x1p50L;  // 13 days
  long double longest = 1.0L;
  for (const CostId cost : ids(costs)) {
    longest += static_cast<long double>(costs[cost].count()) *
               static_cast<long double>(compiled.counts()[index(cost)]);
  }
  if (longest > kLittle) longest = std::max(1.0L, body_alone(program, costs));
  if (longest >= static_cast<long double>(kClock)) refuse_length();
  return static_cast<std::int64_t>(longest);
}

/// Adds what an op of a compute lane is to its device.
static void add_work(const CostKey& key, Duration time, DeviceTallies& tallies) {
  DeviceTally& tally = tallies[key.source];
  tally.busy += time;
  if (is_useful(key.kind)) tally.useful += time;
}

CompiledRun::CompiledRun(const Program& program, const CompiledProgram& compiled,
                         const CostTable& costs)
    : program_(&program),
      compiled_(&compiled),
      table_(&costs),
      costs_(compiled.costs(costs)),
      values_(compiled.values(), 0),
      exposed_(compiled.devices(), 0),
      tallies_(compiled.devices()),
      of_body_(compiled.devices()),
      alone_(longest_body(program, compiled, costs)),
      held_until_(-std::int64_t{program.ramp()} - 1),
      body_(held_until_) {
  for (const CostId cost : ids(costs)) {
    const CostKey& key = program.cost_keys()[cost];
    add_work(key, costs[cost] * compiled.compute_counts()[index(cost)], of_body_);
  }
}

bool CompiledRun::can_run_compiled(std::int64_t body, std::int64_t batches) const {
  return body >= 0 && (body < batches - program_->ramp() || compiled_->can_switch_off());
}

std::int64_t CompiledRun::latest() const {
  return state().empty() ? 0 : *std::ranges::max_element(state());
}

bool CompiledRun::holds(std::int64_t bodies) {
  if (body_ + bodies > held_until_) held_until_ = body_ + (kClock - latest()) / alone_;
  return body_ + bodies <= held_until_;
}

void CompiledRun::run_to(std::int64_t last, std::int64_t batches, bool tally) {
  while (body_ < last) {
    if (!can_go_on()) refuse_length();
    if (can_run_compiled(body_ + 1, batches)) {
      run_compiled(batches, tally);
    } else {
      std::int64_t part = body_ + 1;
      while (part < last && !can_run_compiled(part + 1, batches) && holds(part + 1 - body_)) ++part;
      run_issued(part, batches);
    }
  }
}

void CompiledRun::run_compiled(std::int64_t batches, bool tally) {
  ++body_;
  const bool whole = body_ < batches - program_->ramp();
  if (whole && !tally) return compiled_->run_body(values_, costs_);
  const std::int64_t end =
      whole ? CompiledProgram::kNoEnd : (batches - body_) * program_->microbatches();
  std::fill(exposed_.begin(), exposed_.end(), 0);
  compiled_->run_body(values_, costs_, exposed_, end);
  tally_body(end);
}

/// Of the compiled body that ran last, up to where its instances are switched off.
void CompiledRun::tally_body(std::int64_t end) {
  for (const DeviceId device : ids(tallies_)) {
    DeviceTally& of = tallies_[device];
    of.busy += of_body_[device].busy;
    of.useful += of_body_[device].useful;
    of.exposed_communication += Duration(exposed_[index(device)]);
  }
  for (const CompiledProgram::Late& late : compiled_->late()) {
    if (late.offset < end || !late.on_compute) continue;
    add_work(program_->cost_keys()[late.cost], -(*table_)[late.cost], tallies_);
  }
  for (const CompiledProgram::OwnOps& own : compiled_->own_ops()) {
    DeviceTally& of = tallies_[own.device];
    // What is switched off ran in a body before.
    if (own.first_offset < end) {
      of.first_start =
          std::min(of.first_start, Duration(values_[own.first]) - (*table_)[own.first_cost]);
    }
    of.last_end = std::max(of.last_end, Duration(values_[own.last]));
  }
}

void CompiledRun::run_issued(std::int64_t last, std::int64_t batches) {
  SimulatedMachine machine(*program_, *table_, compiled_->carry_over());
  machine.restore(body_, state(), std::move(tallies_));
  while (body_ < last) {
    ++body_;
    if (body_ < 0 && compiled_->can_switch_off()) {
      const auto on = std::views::transform(compiled_->late(), &CompiledProgram::Late::id);
      run_body(*program_, on, body_, batches, machine);
    } else {
      run_body(*program_, program_->order(), body_, batches, machine);
    }
  }
  std::vector<std::int64_t> state;
  state.reserve(compiled_->carry_over().size());
  machine.append_state(body_, state);
  std::copy(state.begin(), state.end(), values_.begin());
  tallies_ = machine.tallies();
}

void CompiledRun::skip(std::int64_t cycles, std::int64_t bodies, Duration advance,
                       const DeviceTallies& per_cycle) {
  if (advance.count() > 0 && cycles > (kClock - latest()) / advance.count()) refuse_length();
  const Duration all = advance * cycles;
  for (std::size_t i = 0; i < compiled_->carry_over().size(); ++i) values_[i] += all.count();
  for (const DeviceId device : ids(tallies_)) {
    DeviceTally& of = tallies_[device];
    of.busy += per_cycle[device].busy * cycles;
    of.useful += per_cycle[device].useful * cycles;
    of.exposed_communication += per_cycle[device].exposed_communication * cycles;
    of.last_end += all;
  }
  body_ += cycles * bodies;
  held_until_ = body_;
}

}  // namespace tandem
