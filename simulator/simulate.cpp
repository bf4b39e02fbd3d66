#include "simulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/memory/memory.h"
#include "core/program/graph.h"
#include "simulator/compiled/steady_state.h"
#include "simulator/run_figures.h"

namespace tandem {

namespace {

/// Costs of zero would let microbatches outrun their counter.
void check_batches(const Program& program, std::int64_t batches) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  if (batches <= kMost / program.microbatches()) return;
  throw InputError(fmt::format("{} batches of {} microbatches are too many to count", batches,
                               program.microbatches()));
}

/// An endless run and one of so many batches are the same until the latter's end draws near. So one
/// run does for both: it goes on until its cycle is known, and is copied where they part.
class Simulation {
 public:
  Simulation(const Program& program, const CompiledProgram& compiled, const CostTable& costs,
             std::int64_t batches)
      : program_(program),
        batches_(batches),
        last_shared_(batches - 1 - program.ramp()),
        run_(program, compiled, costs) {}

  /// Tallies of the run of `batches`.
  DeviceTallies finish() {
    const Activity progress("simulating batches");
    search();
    CompiledRun& run = parted_ ? *parted_ : run_;
    run.run_to(batches_ - 1, batches_, true);
    return run.tallies();
  }
  /// Of the endless run.
  const std::optional<SteadyState>& steady() const { return steady_; }

 private:
  void search() {
    part();
    const auto size = static_cast<std::int64_t>(program_.size());
    CycleFinder finder;
    while (!steady_ && !finder.gave_up() && run_.can_go_on() &&
           (run_.body() + program_.ramp() + 1) * size < kMostInstances) {
      keep_going();
      run_.run_to(run_.body() + 1, CompiledRun::kEndless, !parted_);
      if (run_.body() >= 0) steady_ = finder.after(run_.body(), run_.state(), run_.tallies());
      if (!steady_) part();
    }
    if (parted_) return;
    if (steady_) {
      const std::int64_t cycles = (last_shared_ - run_.body()) / steady_->cycle_batches;
      run_.skip(cycles, steady_->cycle_batches, steady_->cycle, steady_->per_cycle);
    }
  }

  void part() {
    if (!parted_ && run_.body() >= last_shared_) parted_ = run_;
  }

  const Program& program_;
  const std::int64_t batches_;
  const std::int64_t last_shared_;  // the last body that both runs have in common
  CompiledRun run_;
  std::optional<CompiledRun> parted_;
  std::optional<SteadyState> steady_;
};

void set_cycle(const Program& program, const CostTable& costs,
               const std::optional<SteadyState>& steady, SimulationResult& result) {
  if (steady) {
    result.cycle = steady->cycle;
    result.cycle_batches = steady->cycle_batches;
    result.steady_from_batch = steady->from_batch;
  } else {
    result.exact_cycle = false;
    result.cycle = Duration(std::llround(maximum_cycle_ratio(program, costs)));
  }
}

}  // namespace

SimulationResult simulate(const Program& program, const CostTable& costs,
                          const SimulationRequest& request) {
  const CompiledProgram compiled(program);
  check_batches(program, request.batches);
  SimulationResult result;
  Simulation simulation(program, compiled, costs, request.batches);
  DeviceTallies tallies = simulation.finish();
  if (request.record) {
    result.timeline.emplace();
    tallies = run_simulated(program, costs, request.batches, &*result.timeline);
  }
  set_devices(program, tallies, request.activation_after_input, result);
  set_cycle(program, costs, simulation.steady(), result);
  return result;
}

void set_devices(const Program& program, const DeviceTallies& tallies, double after_input,
                 SimulationResult& result) {
  for (const DeviceTally& tally : tallies) {
    result.makespan = std::max(result.makespan, tally.last_end);
    if (tally.first_start <= tally.last_end)
      result.span = std::max(result.span, tally.last_end - tally.first_start);
    result.ideal = std::max(result.ideal, tally.useful);
  }
  const Table<DeviceId, double> peaks = peak_activations(program, after_input);
  result.devices.resize(program.placement().devices);
  for (const DeviceId device : ids(result.devices)) {
    const DeviceTally& tally = tallies[device];
    result.devices[device] = {.busy = tally.busy,
                              .bubble = result.makespan - tally.busy,
                              .exposed_communication = tally.exposed_communication,
                              .peak_activations = peaks[device],
                              .weight_versions = 1};
  }
  for (const Instruction& instruction : program.instructions()) {
    const Op& op = instruction.op;
    const bool validates = settles_step(op.kind);
    if (!validates && (op.staleness == 0 || !reads_weights(op.kind))) continue;
    std::int32_t& versions = result.devices[program.placement().device[op.replica]].weight_versions;
    versions = std::max(versions, validates ? 2 : 1 + op.staleness);
  }
}

double simulated_period_s(const Program& program, const CompiledProgram& compiled,
                          const CostTable& costs) {
  SimulationResult result;
  set_cycle(program, costs, find_steady_state(program, compiled, costs), result);
  return result.period_s();
}

}  // namespace tandem
