#include "tools/benchmarks/benchmark.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace tandem::benchmarks {

double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

std::vector<double> best_processor_seconds(int repetitions,
                                           const std::vector<std::function<void()>>& functions) {
  std::vector<double> best(functions.size(), std::numeric_limits<double>::infinity());
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const double start = processor_seconds();
      functions[i]();
      best[i] = std::min(best[i], processor_seconds() - start);
    }
  }
  return best;
}

bool met(const Row& row) {
  if (!row.floor) return true;
  const double measured = row.of.empty() ? row.value : row.ratio;
  return row.at_most ? measured <= *row.floor : measured >= *row.floor;
}

}  // namespace tandem::benchmarks
