#include "simulator/analysis/scenarios.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

namespace {

/// Of each table, when the last own op of the body that ran last ended.
std::array<std::int64_t, Scenarios::kAtOnce> ends_of(const CompiledProgram& compiled,
                                                     std::span<const std::int64_t> values) {
  std::array<std::int64_t, Scenarios::kAtOnce> ends{};
  for (const CompiledProgram::OwnOps& own : compiled.own_ops()) {
    for (std::size_t k = 0; k < ends.size(); ++k)
      ends[k] = std::max(ends[k], values[own.last * ends.size() + k]);
  }
  return ends;
}

}  // namespace

Scenarios::Scenarios(const Program& program, const CostTable& costs, const Uncertainty& uncertainty,
                     std::int64_t batches)
    : program_(program),
      uncertainty_(uncertainty),
      jitter_(uncertainty.jitter),
      compiled_(program),
      costs_(compiled_.costs(costs)),
      start_(program, compiled_, costs) {
  TANDEM_CHECK(uncertainty.jitter >= 0.0 && uncertainty.jitter <= noise::Jitter::kMost,
               uncertainty.jitter);
  const double longest = static_cast<double>(*std::ranges::max_element(costs_)) *
                         std::max(1.0, uncertainty.straggler_factor);
  if (longest > static_cast<double>(noise::Jitter::kLongest)) {
    throw InputError(
        fmt::format("an op of {:.3g} s takes too long for a scenario: at most {:.0f} s",
                    longest * 1e-9, static_cast<double>(noise::Jitter::kLongest) * 1e-9));
  }
  const std::optional<SteadyState> steady = find_steady_state(program, compiled_, costs);
  if (!steady) {
    throw InputError(
        "scenarios begin in the steady state of the run without noise, and none was found");
  }
  const std::int64_t cycles = (batches + steady->cycle_batches - 1) / steady->cycle_batches;
  batches_ = cycles * steady->cycle_batches;
  plain_ = cycles * steady->cycle;
  start_.run_to(steady->from_batch - 1, CompiledRun::kEndless, false);
}

bool Scenarios::straggles(std::uint64_t stream, DeviceId device) const {
  const std::uint64_t number = split_mix(~stream + (index(device) + 1) * kSplitMixGamma);
  return noise::uniform(number) < uncertainty_.straggler_rate;
}

std::vector<std::int64_t> Scenarios::costs_of(std::uint64_t stream) const {
  std::vector<std::int64_t> costs = costs_;
  if (uncertainty_.straggler_rate == 0.0) return costs;
  for (const CostId cost : ids(program_.cost_keys())) {
    const CostKey& key = program_.cost_keys()[cost];
    if (!on_compute_lane(key.kind) || !straggles(stream, key.source)) continue;
    std::int64_t& time = costs[index(cost)];
    time = std::llround(static_cast<double>(time) * uncertainty_.straggler_factor);
  }
  return costs;
}

std::array<Duration, Scenarios::kAtOnce> Scenarios::times(std::int64_t first) const {
  std::array<std::uint64_t, kAtOnce> streams{};
  std::vector<std::int64_t> values(compiled_.values() * kAtOnce, 0), costs(costs_.size() * kAtOnce);
  for (std::size_t k = 0; k < kAtOnce; ++k) {
    streams[k] = noise::stream(uncertainty_.seed, static_cast<std::uint64_t>(first) + k);
    const std::vector<std::int64_t> own = costs_of(streams[k]);
    for (std::size_t i = 0; i < own.size(); ++i) costs[i * kAtOnce + k] = own[i];
    for (std::size_t i = 0; i < start_.state().size(); ++i)
      values[i * kAtOnce + k] = start_.state()[i];
  }
  std::array<std::int64_t, kAtOnce> from{};
  for (std::int64_t batch = 0; batch < kWarmUp + batches_; ++batch) {
    if (batch == kWarmUp) from = ends_of(compiled_, values);
    if (jitter_.none())
      compiled_.run_bodies(values, costs);
    else
      compiled_.run_bodies(values, costs, streams, jitter_);
    for (std::uint64_t& stream : streams) stream += program_.size() * kSplitMixGamma;
  }
  const std::array<std::int64_t, kAtOnce> until = ends_of(compiled_, values);
  std::array<Duration, kAtOnce> times{};
  for (std::size_t k = 0; k < kAtOnce; ++k) times[k] = Duration(until[k] - from[k]);
  return times;
}

}  // namespace tandem
