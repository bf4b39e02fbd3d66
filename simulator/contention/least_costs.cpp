#include "simulator/contention/least_costs.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tandem {

CostTable least_costs(const Network& network, CostTable costs) {
  CostTable least = unshared_costs(network, std::move(costs));
  for (const CostId key : ids(network.flows)) {
    const std::int64_t rounded = std::ranges::count_if(
        network.flows[key], [](const Network::Flow& flow) { return flow.bytes > 0; });
    least[key] = std::max(least[key] - Duration(rounded), Duration{});
  }
  return least;
}

}  // namespace tandem
