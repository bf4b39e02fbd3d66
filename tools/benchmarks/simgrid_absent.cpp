#include "tools/benchmarks/simgrid.h"

namespace tandem::benchmarks {

std::optional<PeerRun> run_simgrid(const Schedule&, const PeerTimes&) { return std::nullopt; }

}  // namespace tandem::benchmarks
