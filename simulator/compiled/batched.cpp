// Several cost tables in one pass over a body, as they are or with noise on each op's time. Wide
// registers make it fast, where the machine that runs this has them: CMake defines TANDEM_WIDE so
// that the loader picks among several compilations of a function, or as nothing. The hash of noise
// has 64-bit products, which ask for more than the widest registers: TANDEM_WIDE_PRODUCTS.

#include <algorithm>

#include "core/base/check.h"
#include "simulator/compiled/compiled_program.h"
#include "simulator/compiled/noise.h"

namespace tandem {

namespace {

using Time = std::int64_t;
constexpr std::size_t kTables = CompiledProgram::kTables;

struct AsPriced {
  [[gnu::always_inline]] void begin_step(std::size_t) {}
  [[gnu::always_inline]] Time time(Time cost, std::size_t) const { return cost; }
};

struct Drawn {
  [[gnu::always_inline]] void begin_step(std::size_t cost) {
    counter += cost == no_price ? 0 : kSplitMixGamma;
  }
  [[gnu::always_inline]] Time time(Time cost, std::size_t table) const {
    return jitter.time(cost, split_mix(streams[table] + counter));
  }

  std::uint64_t streams[kTables];
  noise::Jitter jitter;
  std::size_t no_price;  // of steps that join: they draw nothing
  std::uint64_t counter = 0;
};

template <class Step, class Times>
[[gnu::always_inline]] inline void run_tables(std::span<const Step> steps, Time* __restrict values,
                                              const Time* __restrict costs, Times times) {
  for (const Step& step : steps) {
    times.begin_step(step.cost);
    const Time* first = values + std::size_t{step.first} * kTables;
    const Time* second = values + std::size_t{step.second} * kTables;
    const Time* cost = costs + std::size_t{step.cost} * kTables;
    Time ends[kTables];  // `out` may be a slot that this step reads
    for (std::size_t k = 0; k < kTables; ++k)
      ends[k] = std::max(first[k], second[k]) + times.time(cost[k], k);
    Time* out = values + std::size_t{step.out} * kTables;
    for (std::size_t k = 0; k < kTables; ++k) out[k] = ends[k];
  }
}

// No templates: these have no several compilations.
using NarrowSteps = std::span<const CompiledStep<std::uint16_t>>;
using WideSteps = std::span<const CompiledStep<std::uint32_t>>;
TANDEM_WIDE void run_wide(NarrowSteps steps, Time* values, const Time* costs, AsPriced as_priced) {
  run_tables(steps, values, costs, as_priced);
}
TANDEM_WIDE void run_wide(WideSteps steps, Time* values, const Time* costs, AsPriced as_priced) {
  run_tables(steps, values, costs, as_priced);
}
TANDEM_WIDE_PRODUCTS void run_wide(NarrowSteps steps, Time* values, const Time* costs,
                                   const Drawn& drawn) {
  run_tables(steps, values, costs, drawn);
}
TANDEM_WIDE_PRODUCTS void run_wide(WideSteps steps, Time* values, const Time* costs,
                                   const Drawn& drawn) {
  run_tables(steps, values, costs, drawn);
}

}  // namespace

template <class Times>
void CompiledProgram::run_tables_by(std::span<std::int64_t> values,
                                    std::span<const std::int64_t> costs, const Times& times) const {
  TANDEM_CHECK(values.size() == values_ * kTables && costs.size() == prices_ * kTables,
               values.size(), costs.size());
  std::visit(
      [&](const auto& code) {
        run_wide(std::span(code.steps), values.data(), costs.data(), times);
      },
      code_);
  copy_state(values, kTables);
}

void CompiledProgram::run_bodies(std::span<std::int64_t> values,
                                 std::span<const std::int64_t> costs) const {
  run_tables_by(values, costs, AsPriced{});
}

void CompiledProgram::run_bodies(std::span<std::int64_t> values,
                                 std::span<const std::int64_t> costs,
                                 std::span<const std::uint64_t, kTables> streams,
                                 const noise::Jitter& jitter) const {
  Drawn drawn{.streams = {}, .jitter = jitter, .no_price = prices_ - 1};
  std::copy(streams.begin(), streams.end(), drawn.streams);
  run_tables_by(values, costs, drawn);
}

}  // namespace tandem
