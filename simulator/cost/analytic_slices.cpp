#include "simulator/cost/analytic_slices.h"

#include <algorithm>
#include <cstddef>

#include "simulator/cost/boundary_transfer.h"

namespace tandem {

SliceTime analytic_slice_time(const Plan& plan, const ClusterLayout& layout,
                              const AnalyticAssumptions& assumptions, std::int64_t stages) {
  const LayerRange all{0, static_cast<std::int32_t>(layers_of(plan.model).size())};
  return [&plan, &layout, &assumptions, stages, all](SequencePart part) {
    const ClusterLayers layers(plan, layout, assumptions, part);
    const StageTimes times = layers.of(DeviceId{}, all);
    Duration both_ways{};
    for (std::size_t next = 1; next < layout.depth(); ++next) {
      const DeviceId one = id_at<DeviceId>(next - 1), other = id_at<DeviceId>(next);
      const auto transfer = [&](DeviceId source, DeviceId target) {
        return boundary_transfer(plan, layout, assumptions, part, source, target,
                                 layers.tensor_sum(target));
      };
      both_ways = std::max(both_ways, transfer(one, other) + transfer(other, one));
    }
    return (times.forward + times.backward) / stages + both_ways;
  };
}

}  // namespace tandem
