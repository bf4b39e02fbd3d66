#include "simulator/contention/contended.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "simulator/contention/contended_machine.h"
#include "simulator/contention/repetition.h"
#include "simulator/run_figures.h"

namespace tandem {

namespace {

/// In ticks.
DeviceTallies tallies_of(const ContendedProgram& compiled, std::int64_t batches,
                         Timeline* timeline = nullptr) {
  ContendedMachine machine(compiled, timeline);
  machine.run(batches);
  return machine.tick_tallies();
}

/// Looks for the cycle of the endless run.
struct Search {
  Repetition repetition;
  std::optional<Repetition::Cycle> cycle;

  explicit Search(const ContendedProgram& compiled) {
    const Program& program = compiled.program();
    const auto size = static_cast<std::int64_t>(program.size() + 1);
    const std::int64_t last = std::max<std::int64_t>(kMostContended / size, 2 * program.ramp() + 8);
    ContendedMachine machine(compiled, nullptr,
                             [&](std::int64_t body, std::span<const std::int64_t> times) {
                               if (body >= 0 && !cycle) cycle = repetition.after(body, times);
                               return cycle.has_value() || body >= last;
                             });
    try {
      machine.run(last + program.ramp() + 1);
    } catch (const InputError&) {
      // The endless run outlasts the clock, but the one asked for may not.
      if (repetition.mean_period() == 0.0) throw;
    }
  }
};

/// `run` ticks, and so many times as much as it is more than `less`, in nanoseconds.
Duration grown(Duration less, Duration run, std::int64_t times) {
  const std::int64_t more = (run - less).count();
  const std::int64_t parts = run.count() % kTicks + more % kTicks * times + kTicks / 2;
  return Duration(run.count() / kTicks + more / kTicks * times + parts / kTicks);
}

/// A run is the endless one until its end draws near. So one of as many whole cycles less differs
/// from it by these, and two that are a cycle apart say what a cycle is.
std::optional<DeviceTallies> extrapolated(const ContendedProgram& compiled,
                                          const Repetition::Cycle& cycle, std::int64_t batches) {
  const std::int64_t enough = cycle.from + 2 * cycle.bodies + 2 * compiled.program().ramp() + 4;
  if (batches <= enough + 2 * cycle.bodies) return std::nullopt;
  constexpr double kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 4);
  if (batches > kNever / kTicks ||
      static_cast<double>(batches) * static_cast<double>(cycle.time) / kTicks > kMost)
    throw InputError("the run is too long to count in nanoseconds (292 years): fewer batches");
  const std::int64_t shorter = enough + (batches - enough) % cycle.bodies;
  const DeviceTallies less = tallies_of(compiled, shorter);
  DeviceTallies all = tallies_of(compiled, shorter + cycle.bodies);
  if (last_end(all) - last_end(less) != Duration(cycle.time)) return std::nullopt;
  const std::int64_t times = (batches - shorter) / cycle.bodies - 1;
  for (const DeviceId device : ids(all)) {
    DeviceTally& of = all[device];
    const DeviceTally& before = less[device];
    of.first_start = of.first_start == Duration::max() ? of.first_start
                                                       : grown(of.first_start, of.first_start, 0);
    of.busy = grown(before.busy, of.busy, times);
    of.useful = grown(before.useful, of.useful, times);
    of.exposed_communication = grown(before.exposed_communication, of.exposed_communication, times);
    of.last_end = grown(before.last_end, of.last_end, times);
  }
  return all;
}

}  // namespace

SimulationResult simulate_contended(const Program& program, const CostTable& costs,
                                    const Network& network, const SimulationRequest& request) {
  check(network, program);
  const CostTable unshared = unshared_costs(network, costs);
  const ContendedProgram compiled(program, costs, network);
  if (compiled.is_plain()) return simulate(program, unshared, request);
  const Search search(compiled);
  SimulationResult result;
  std::optional<DeviceTallies> tallies;
  if (request.record) {
    result.timeline.emplace();
    tallies = in_nanoseconds(tallies_of(compiled, request.batches, &*result.timeline));
  } else if (search.cycle) {
    tallies = extrapolated(compiled, *search.cycle, request.batches);
  }
  if (!tallies) tallies = in_nanoseconds(tallies_of(compiled, request.batches));
  set_devices(program, *tallies, request.activation_after_input, result);
  const double cycle_ticks =
      search.cycle ? static_cast<double>(search.cycle->time) : search.repetition.mean_period();
  result.cycle = Duration(std::llround(cycle_ticks / kTicks));
  result.exact_cycle = search.cycle.has_value();
  if (search.cycle) {
    result.cycle_batches = search.cycle->bodies;
    result.steady_from_batch = search.cycle->from;
  }
  return result;
}

}  // namespace tandem
