#include "simulator/steady_state.h"

#include <limits>
#include <utility>

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

/// Bodies that fit the clock even if all their instructions ran one after another.
std::int64_t bodies_in_range(const Program& program, const CostTable& costs) {
  long double one_body = 1.0L;
  for (const Instruction& instruction : program.instructions()) {
    one_body += static_cast<long double>(costs[instruction.cost].count());
  }
  constexpr auto kEnd = static_cast<long double>(std::numeric_limits<std::int64_t>::max() / 2);
  return static_cast<std::int64_t>(kEnd / one_body);
}

}  // namespace

std::optional<SteadyState> CycleFinder::after(std::int64_t body, const SimulatedMachine& machine) {
  std::vector<Duration> shape;
  machine.append_state(body, shape);
  const Duration base = shape.empty() ? Duration{} : shape.front();
  for (Duration& time : shape) time -= base;
  if (candidate_ && body == 2 * candidate_->body - candidate_->first_body) {
    if (candidate_->shape == shape) {
      SteadyState steady;
      steady.cycle = base - candidate_->base;
      steady.cycle_batches = body - candidate_->body;
      steady.from_batch = candidate_->first_body + 1;
      steady.per_cycle.resize(machine.tallies().size());
      for (const DeviceId device : ids(steady.per_cycle)) {
        steady.per_cycle[device] =
            difference(machine.tallies()[device], candidate_->tallies[device]);
      }
      return steady;
    }
    candidate_.reset();
  }
  if (candidate_ || gave_up()) return std::nullopt;
  const auto [first, fresh] = first_body_.try_emplace(hash_of(shape), body);
  if (fresh) return std::nullopt;
  candidate_ = Seen{.first_body = first->second,
                    .body = body,
                    .shape = std::move(shape),
                    .base = base,
                    .tallies = machine.tallies()};
  return std::nullopt;
}

std::optional<SteadyState> find_steady_state(const Program& program, const CostTable& costs,
                                             std::int64_t most_instances) {
  constexpr std::int64_t kEndless = std::numeric_limits<std::int32_t>::max();
  const std::int64_t last = bodies_in_range(program, costs) - program.ramp();
  SimulatedMachine machine(program, costs);
  CycleFinder finder;
  std::int64_t issued = 0;
  for (std::int64_t body = -program.ramp(); body < last && issued < most_instances; ++body) {
    run_body(program, program.order(), body, kEndless, machine);
    issued += static_cast<std::int64_t>(program.size());
    if (body < 0) continue;
    if (auto steady = finder.after(body, machine)) return steady;
    if (finder.gave_up()) break;
  }
  return std::nullopt;
}

}  // namespace tandem
