#include "simulator/compiled/steady_state.h"

#include <algorithm>

#include "core/base/hash.h"
#include "core/base/progress.h"

namespace tandem {

namespace {

/// The states are one another's, shifted in time.
bool same_shape(std::span<const std::int64_t> one, std::span<const std::int64_t> other) {
  if (one.size() != other.size()) return false;
  const std::int64_t apart = one.empty() ? 0 : one.front() - other.front();
  return std::equal(one.begin(), one.end(), other.begin(),
                    [apart](std::int64_t a, std::int64_t b) { return a - b == apart; });
}

DeviceTally difference(const DeviceTally& later, const DeviceTally& earlier) {
  DeviceTally delta;
  delta.busy = later.busy - earlier.busy;
  delta.useful = later.useful - earlier.useful;
  delta.exposed_communication = later.exposed_communication - earlier.exposed_communication;
  return delta;
}

}  // namespace

SteadyState CycleFinder::cycle(std::int64_t from_batch, const Seen& earlier, const Seen& later) {
  SteadyState steady;
  steady.cycle = Duration(later.state.empty() ? 0 : later.state.front() - earlier.state.front());
  steady.cycle_batches = later.body - earlier.body;
  steady.from_batch = from_batch;
  for (const DeviceId device : ids(later.tallies))
    steady.per_cycle.push_back(difference(later.tallies[device], earlier.tallies[device]));
  return steady;
}

std::optional<SteadyState> CycleFinder::after(std::int64_t body,
                                              std::span<const std::int64_t> state,
                                              const DeviceTallies& tallies) {
  const auto now = [&] { return Seen{body, {state.begin(), state.end()}, tallies}; };
  if (suspect_ && body == 2 * suspect_->body - suspected_from_) {
    if (same_shape(suspect_->state, state)) return cycle(suspected_from_ + 1, *suspect_, now());
    suspect_.reset();
  }
  if (suspect_ || gave_up()) return std::nullopt;
  const auto [found, fresh] = first_.try_emplace(
      hash_of_times(state, state.empty() ? 0 : state.front()), Seen{body, {}, {}});
  Seen& first = found->second;
  if (fresh) {
    if (kept_ + state.size() + tallies.size() <= kMostKept) {
      first = now();
      kept_ += state.size() + tallies.size();
    }
  } else if (first.state.empty() && !state.empty()) {
    suspected_from_ = first.body;
    suspect_ = now();
  } else if (same_shape(first.state, state)) {
    return cycle(first.body + 1, first, now());
  }
  return std::nullopt;
}

std::optional<SteadyState> find_steady_state(const Program& program,
                                             const CompiledProgram& compiled,
                                             const CostTable& costs, std::int64_t most_instances) {
  CompiledRun run(program, compiled, costs);
  CycleFinder finder;
  const auto size = static_cast<std::int64_t>(program.size());
  while (run.can_go_on() && (run.body() + program.ramp() + 1) * size < most_instances) {
    keep_going();
    run.run_to(run.body() + 1, CompiledRun::kEndless, false);
    if (run.body() < 0) continue;
    if (auto steady = finder.after(run.body(), run.state(), {})) return steady;
    if (finder.gave_up()) break;
  }
  return std::nullopt;
}

}  // namespace tandem
