#include "simulator/steady_state.h"

#include <limits>

namespace tandem {

namespace {

std::uint64_t hash_of(const std::vector<Duration>& shape) {
  std::uint64_t hash = 1469598103934665603ull;
  for (const Duration time : shape) {
    hash = (hash ^ static_cast<std::uint64_t>(time.count())) * 1099511628211ull;
  }
  return hash;
}

DeviceTally difference(const DeviceTally& later, const DeviceTally& earlier) {
  DeviceTally delta;
  delta.busy = later.busy - earlier.busy;
  delta.useful = later.useful - earlier.useful;
  delta.exposed_communication = later.exposed_communication - earlier.exposed_communication;
  return delta;
}

}  // namespace

std::optional<SteadyState> CycleFinder::after(std::int64_t body, const SimulatedMachine& machine) {
  Seen now{.body = body, .shape = {}, .base = {}, .tallies = machine.tallies()};
  machine.append_state(body, now.shape);
  now.base = now.shape.empty() ? Duration{} : now.shape.front();
  for (Duration& time : now.shape) time -= now.base;
  const std::uint64_t hash = hash_of(now.shape);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto match = first; match != last; ++match) {
    const Seen& before = seen_[match->second];
    if (before.shape != now.shape) continue;
    SteadyState steady;
    steady.cycle = now.base - before.base;
    steady.cycle_batches = body - before.body;
    steady.from_batch = before.body + 1;
    steady.per_cycle.resize(now.tallies.size());
    for (const DeviceId device : ids(now.tallies)) {
      steady.per_cycle[device] = difference(now.tallies[device], before.tallies[device]);
    }
    return steady;
  }
  by_hash_.emplace(hash, seen_.size());
  seen_.push_back(std::move(now));
  return std::nullopt;
}

std::optional<SteadyState> find_steady_state(const Program& program, const CostTable& costs,
                                             std::int64_t most_instances) {
  constexpr std::int64_t kEndless = std::numeric_limits<std::int32_t>::max();
  SimulatedMachine machine(program, costs);
  CycleFinder finder;
  std::int64_t issued = 0;
  for (std::int64_t body = -program.ramp(); issued < most_instances; ++body) {
    run_body(program, program.order(), body, kEndless, machine);
    issued += static_cast<std::int64_t>(program.size());
    if (body < 0) continue;
    if (auto steady = finder.after(body, machine)) return steady;
  }
  return std::nullopt;
}

}  // namespace tandem
