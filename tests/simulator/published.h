#pragma once
// What the tests of published orders and closed forms share: simulations at plain costs, and an
// order as the golden files write it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/program/graph.h"
#include "simulator/simulate.h"
#include "tests/support/pipelines.h"

namespace tandem::testing {

inline constexpr PlainCosts kUnit{.forward = 1, .backward = 2};

inline SimulationResult simulated(const Pipeline& wanted, const PlainCosts& costs,
                                  std::int64_t batches = 1,
                                  TransferLanes lanes = TransferLanes::shared) {
  const Program program = program_of(wanted, lanes);
  return simulate(program, plain_costs(program, costs), {.batches = batches});
}

/// Costs of one op: of a stage, or of a chunk where devices hold several.
inline PlainCosts split(std::int64_t forward, std::int64_t input, std::int64_t weight,
                        std::int64_t transfer = 0) {
  return {.forward = forward,
          .backward = input + weight,
          .transfer = transfer,
          .backward_weight = weight};
}

/// Nanoseconds a batch; REQUIRES: whole.
inline std::int64_t period(const SimulationResult& result) {
  EXPECT_EQ(result.cycle.count() % result.cycle_batches, 0);
  return result.cycle.count() / result.cycle_batches;
}
inline std::int64_t period(const Pipeline& wanted, const PlainCosts& costs) {
  return period(simulated(wanted, costs));
}

inline Pipeline chunked(std::string_view schedule, int p, std::int32_t m, int chunks,
                        std::int32_t group = 0) {
  Pipeline wanted = pipeline(schedule, p, m);
  wanted.request.chunks = static_cast<std::uint16_t>(chunks);
  wanted.request.group = group;
  return wanted;
}

/// The ops of each device, those that are one unit in brackets, then what simulation at unit costs
/// says: end, span, peak of each device in microbatches of a stage.
inline std::string order_and_figures(const Pipeline& wanted) {
  const Schedule schedule = schedule_of(wanted);
  const std::size_t chunks = chunks_of(schedule.placement)[DeviceId{}];
  std::string text = fmt::format("\n{} {} {} {}\n", wanted.schedule, wanted.request.devices,
                                 wanted.request.microbatches, chunks);
  for (const std::vector<Op>& order : schedule.order) {
    std::vector<std::string> words;
    std::uint8_t group = 0;
    for (const Op& op : order) {
      if (!is_compute(op.kind)) continue;
      std::string word =
          fmt::format("{}{}{}", index(op.replica), traits(op.kind).notation, op.microbatch);
      if (op.group == 0 || op.group != group) {
        words.push_back(std::move(word));
      } else {
        words.back() = fmt::format("({};{})", words.back(), word);
      }
      group = op.group;
    }
    text += fmt::format("{}\n", fmt::join(words, " "));
  }
  const SimulationResult result = simulated(wanted, kUnit);
  text += fmt::format("unit {} {}", result.makespan.count(), result.span.count());
  for (const DeviceUse& use : result.devices) {
    text += fmt::format(" {}", use.peak_activations * static_cast<double>(chunks));
  }
  return text + "\n";
}

}  // namespace tandem::testing
