#include "tools/benchmarks/fma_peak.h"

namespace tandem::benchmarks {

FmaPeak measure_fma_peak() { return {}; }

}  // namespace tandem::benchmarks
