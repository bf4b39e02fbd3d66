#include "tools/benchmarks/flat_reference.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"

namespace tandem::benchmarks {

FlatReference::FlatReference(const Program& program, const CostTable& costs)
    : end_(program.size() + 1, 0) {
  for (const Duration cost : costs) costs_.push_back(cost.count());
  steps_.reserve(program.size());
  Table<LaneId, std::uint32_t> last(program.lanes().size(), 0);
  for (const Instruction& instruction : program.instructions()) {
    std::array<std::uint32_t, 2> before{0, 0};
    const auto add = [&](std::uint32_t step) {
      if (step == 0 || step == before[0] || step == before[1]) return;
      TANDEM_CHECK(before[1] == 0, steps_.size());
      before[before[0] == 0 ? 0 : 1] = step;
    };
    for (const LaneId lane : program.lanes(instruction)) add(last[lane]);
    for (const Wait& wait : program.waits(instruction)) {
      if (wait.lag == 0) add(static_cast<std::uint32_t>(index(wait.producer)) + 1);
    }
    steps_.push_back({before[0], before[1], static_cast<std::uint32_t>(index(instruction.cost))});
    for (const LaneId lane : program.lanes(instruction)) {
      last[lane] = static_cast<std::uint32_t>(steps_.size());
    }
  }
}

std::int64_t FlatReference::longest_path() {
  std::int64_t longest = 0;
  std::int64_t* const end = end_.data();
  const std::int64_t* const costs = costs_.data();
  std::size_t at = 0;
  for (const Step& step : steps_) {
    const std::int64_t ends = std::max(end[step.first], end[step.second]) + costs[step.cost];
    end[++at] = ends;
    longest = std::max(longest, ends);
  }
  return longest;
}

}  // namespace tandem::benchmarks
