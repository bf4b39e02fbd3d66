#include "planner/cluster/priced_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "planner/cluster/cluster_setup.h"

namespace tandem {

bool PricedPlan::fits() const {
  return std::ranges::equal(needed, capacity, std::ranges::less_equal());
}

PricedPlan price_on_cluster(Plan plan, const Cluster& cluster, NumberFormat format) {
  ClusterRequest request{.plan = std::move(plan)};
  request.cluster = {std::shared_ptr<const Cluster>(), &cluster};  // the caller's, for this call
  request.assumptions.format = format;
  request.depth = request.plan.request.devices;
  request.width = request.plan.request.width;
  request.microbatches = request.plan.request.microbatches;
  ClusterPlan made = set_up_on_cluster(std::move(request)).made;
  PricedPlan priced{.plan = std::move(made.plan), .program = std::move(made.program)};
  priced.prices =
      price(priced.program, cost_model(priced.program.placement(), std::move(made.costs)));
  for (const MemoryByClass& memory : made.memory) priced.needed.push_back(memory.total());
  priced.plan.predicted.peak_bytes = made.figures.tandem.rows();
  priced.capacity = std::move(made.capacity);
  return priced;
}

}  // namespace tandem
