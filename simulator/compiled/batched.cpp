// Several cost tables in one pass over a body. Wide registers make it fast, where the machine that
// runs this has them: CMake defines TANDEM_WIDE so that the loader picks among several compilations
// of a function, or as nothing.

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

#include "core/base/check.h"
#include "simulator/compiled/compiled_program.h"

namespace tandem {

namespace {

using Time = std::int64_t;

template <class Step>
[[gnu::always_inline]] inline void run_tables(std::span<const Step> steps, Time* __restrict values,
                                              const Time* __restrict costs) {
  constexpr std::size_t kTables = CompiledProgram::kTables;
  for (const Step& step : steps) {
    const Time* first = values + std::size_t{step.first} * kTables;
    const Time* second = values + std::size_t{step.second} * kTables;
    const Time* cost = costs + std::size_t{step.cost} * kTables;
    Time ends[kTables];  // `out` may be a slot that this step reads
    for (std::size_t k = 0; k < kTables; ++k) ends[k] = std::max(first[k], second[k]) + cost[k];
    Time* out = values + std::size_t{step.out} * kTables;
    for (std::size_t k = 0; k < kTables; ++k) out[k] = ends[k];
  }
}

TANDEM_WIDE void run_wide(std::span<const CompiledStep<std::uint16_t>> steps, Time* values,
                          const Time* costs) {
  run_tables(steps, values, costs);
}

TANDEM_WIDE void run_wide(std::span<const CompiledStep<std::uint32_t>> steps, Time* values,
                          const Time* costs) {
  run_tables(steps, values, costs);
}

}  // namespace

void CompiledProgram::run_bodies(std::span<std::int64_t> values,
                                 std::span<const std::int64_t> costs) const {
  TANDEM_CHECK(values.size() == values_ * kTables && costs.size() == prices_ * kTables,
               values.size(), costs.size());
  std::visit(
      [&](const auto& code) { run_wide(std::span(code.steps), values.data(), costs.data()); },
      code_);
  copy_state(values, kTables);
}

}  // namespace tandem
