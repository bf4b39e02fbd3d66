#pragma once
// The reference of the simulator's rates: a bare longest path over a flat layout of two
// predecessors a step, in topological order, in the simulator's own arithmetic (integer
// nanoseconds, prices from a table). It knows no lanes, no microbatches and no batches, and so is
// the practical limit of any evaluator.

#include <cstdint>
#include <vector>

#include "core/program/cost.h"

namespace tandem::benchmarks {

class FlatReference {
 public:
  /// One body of `program` alone, all its instances on. REQUIRES: no instruction has more than two
  /// distinct predecessors in its body (checked, aborts): a linear pipeline without sums.
  FlatReference(const Program& program, const CostTable& costs);

  std::size_t size() const { return steps_.size(); }
  /// The latest end of any step.
  std::int64_t longest_path();

 private:
  struct Step {
    std::uint32_t first = 0, second = 0, cost = 0;  // 0 is the start; step i stands at i + 1
  };
  std::vector<Step> steps_;
  std::vector<std::int64_t> costs_, end_;
};

}  // namespace tandem::benchmarks
