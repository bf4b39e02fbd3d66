#include "tools/benchmarks/simgrid.h"

namespace tandem::benchmarks {

std::optional<PeerRun> run_simgrid(const Schedule&, const PeerTimes&) { return std::nullopt; }

std::optional<PeerComparison> compare_with_simgrid(const Program&, const CostTable&, const Network&,
                                                   const Timeline&) {
  return std::nullopt;
}

}  // namespace tandem::benchmarks
