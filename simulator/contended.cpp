#include "simulator/contended.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "simulator/contended_machine.h"
#include "simulator/repetition.h"

namespace tandem {

namespace {

/// How many batches can be followed through time: no run lasts longer than all its work one after
/// another, for a link that is shared never stands still, and that must fit the clock.
std::int64_t most_batches(const Program& program, const CostTable& unshared,
                          const Network& network) {
  double slowest = 1.0;
  for (const double slowdown : network.compute_slowdown) slowest = std::max(slowest, slowdown);
  double one_body = 1.0;
  for (const Instruction& instruction : program.instructions()) {
    one_body += slowest * static_cast<double>(unshared[instruction.cost].count());
  }
  constexpr auto kClock = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 2);
  return static_cast<std::int64_t>(std::min(kClock / kTicks / one_body, 1e9)) - program.ramp() - 1;
}

struct Run {
  const ContendedProgram& compiled;
  std::int64_t most_batches;

  /// In ticks.
  DeviceTallies tallies(std::int64_t batches, Timeline* timeline = nullptr) const {
    if (batches > most_batches) {
      throw InputError("the run is too long to be followed through time: fewer batches");
    }
    ContendedMachine machine(compiled, timeline);
    machine.run(batches);
    return machine.tick_tallies();
  }
};

/// Looks for the cycle of the endless run.
struct Search {
  Repetition repetition;
  std::optional<Repetition::Cycle> cycle;

  explicit Search(const Run& run) {
    const Program& program = run.compiled.program();
    const auto size = static_cast<std::int64_t>(program.size() + 1);
    const std::int64_t most =
        std::min(std::max<std::int64_t>(kMostContended / size, 8), run.most_batches);
    ContendedMachine machine(run.compiled, nullptr,
                             [&](std::int64_t body, std::span<const std::int64_t> times) {
                               if (body >= 0) cycle = repetition.after(body, times);
                               return cycle.has_value() || body >= most - program.ramp() - 1;
                             });
    machine.run(most);
  }
};

Duration last_end(const DeviceTallies& tallies) {
  Duration last{};
  for (const DeviceTally& tally : tallies) last = std::max(last, tally.last_end);
  return last;
}

/// `run` ticks, and so many times as much as it is more than `less`, in nanoseconds.
Duration grown(Duration less, Duration run, std::int64_t times) {
  const std::int64_t more = (run - less).count();
  const std::int64_t parts = run.count() % kTicks + more % kTicks * times + kTicks / 2;
  return Duration(run.count() / kTicks + more / kTicks * times + parts / kTicks);
}

/// A run is the endless one until its end draws near. So one of as many whole cycles less differs
/// from it by these, and two that are a cycle apart say what a cycle is.
std::optional<DeviceTallies> extrapolated(const Run& run, const Repetition::Cycle& cycle,
                                          std::int64_t batches) {
  const std::int64_t enough = cycle.from + 2 * cycle.bodies + 2 * run.compiled.program().ramp() + 4;
  if (batches <= enough + 2 * cycle.bodies) return std::nullopt;
  constexpr double kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 4);
  if (static_cast<double>(batches) * static_cast<double>(cycle.time) / kTicks > kMost) {
    throw InputError("the run is too long to count in nanoseconds (292 years): fewer batches");
  }
  const std::int64_t shorter = enough + (batches - enough) % cycle.bodies;
  const DeviceTallies less = run.tallies(shorter);
  DeviceTallies all = run.tallies(shorter + cycle.bodies);
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
  const Run run{compiled, most_batches(program, unshared, network)};
  const Search search(run);
  SimulationResult result;
  std::optional<DeviceTallies> tallies;
  if (request.record) {
    result.timeline.emplace();
    tallies = in_nanoseconds(run.tallies(request.batches, &*result.timeline));
  } else if (search.cycle) {
    tallies = extrapolated(run, *search.cycle, request.batches);
  }
  if (!tallies) tallies = in_nanoseconds(run.tallies(request.batches));
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
