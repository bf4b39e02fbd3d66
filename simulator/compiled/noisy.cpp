// Several cost tables in one pass, with noise on each op's time. As in batched.cpp CMake
// defines TANDEM_WIDE: here the 64-bit products of the hash ask for more than the widest registers.

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

#include "core/base/check.h"
#include "simulator/compiled/compiled_program.h"
#include "simulator/compiled/noise.h"

namespace tandem {

namespace {

using Time = std::int64_t;

struct Drawn {
  std::uint64_t streams[CompiledProgram::kTables];
  noise::Jitter jitter;
  std::size_t no_price;  // of steps that join: they draw nothing
};

template <class Step>
[[gnu::always_inline]] inline void run_noisy(std::span<const Step> steps, Time* __restrict values,
                                             const Time* __restrict costs, const Drawn drawn) {
  constexpr std::size_t kTables = CompiledProgram::kTables;
  std::uint64_t counter = 0;
  for (const Step& step : steps) {
    counter += step.cost == drawn.no_price ? 0 : kSplitMixGamma;
    const Time* first = values + std::size_t{step.first} * kTables;
    const Time* second = values + std::size_t{step.second} * kTables;
    const Time* cost = costs + std::size_t{step.cost} * kTables;
    Time ends[kTables];  // `out` may be a slot that this step reads
    for (std::size_t k = 0; k < kTables; ++k) {
      ends[k] = std::max(first[k], second[k]) +
                drawn.jitter.time(cost[k], split_mix(drawn.streams[k] + counter));
    }
    Time* out = values + std::size_t{step.out} * kTables;
    for (std::size_t k = 0; k < kTables; ++k) out[k] = ends[k];
  }
}

TANDEM_WIDE void run_wide(std::span<const CompiledStep<std::uint16_t>> steps, Time* values,
                          const Time* costs, const Drawn& drawn) {
  run_noisy(steps, values, costs, drawn);
}

TANDEM_WIDE void run_wide(std::span<const CompiledStep<std::uint32_t>> steps, Time* values,
                          const Time* costs, const Drawn& drawn) {
  run_noisy(steps, values, costs, drawn);
}

}  // namespace

void CompiledProgram::run_bodies(std::span<std::int64_t> values,
                                 std::span<const std::int64_t> costs,
                                 std::span<const std::uint64_t, kTables> streams,
                                 const noise::Jitter& jitter) const {
  TANDEM_CHECK(values.size() == values_ * kTables && costs.size() == prices_ * kTables,
               values.size(), costs.size());
  Drawn drawn{.streams = {}, .jitter = jitter, .no_price = prices_ - 1};
  std::copy(streams.begin(), streams.end(), drawn.streams);
  std::visit(
      [&](const auto& code) {
        run_wide(std::span(code.steps), values.data(), costs.data(), drawn);
      },
      code_);
  copy_state(values, kTables);
}

}  // namespace tandem
