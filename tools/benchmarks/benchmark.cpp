#include "tools/benchmarks/benchmark.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace tandem::benchmarks {

std::vector<double> best_seconds(int repetitions,
                                 const std::vector<std::function<void()>>& functions) {
  std::vector<double> best(functions.size(), std::numeric_limits<double>::infinity());
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      functions[i]();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best[i] = std::min(best[i], took.count());
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
