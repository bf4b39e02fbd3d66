#include "planner/cluster/nearest_miss.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/base/error.h"
#include "core/base/progress.h"

namespace tandem {

std::optional<ClusterRequest> nearest_miss(const ClusterQuestion& question,
                                           std::vector<MemoryMissOfShape> misses) {
  constexpr std::size_t kCounted = 128;
  std::ranges::stable_sort(misses, {}, &MemoryMissOfShape::least);
  misses.resize(std::min(misses.size(), kCounted));
  const Activity progress("looking for what nearly fits", std::ssize(misses));
  std::optional<ClusterRequest> nearest;
  Bytes least = 0;
  for (const MemoryMissOfShape& one : misses) {
    progress.step();
    ClusterRequest request = request_of(question, one.shape);
    try {
      const Bytes excess = set_up_on_cluster(request).made.excess();
      if (excess <= 0 || (nearest && excess >= least)) continue;
      least = excess;
      nearest = std::move(request);
    } catch (const InputError&) {
      continue;  // refused: it is no plan
    }
  }
  return nearest;
}

}  // namespace tandem
