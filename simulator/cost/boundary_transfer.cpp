#include "simulator/cost/boundary_transfer.h"

#include <cmath>

namespace tandem {

Duration boundary_transfer(const Plan& plan, const ClusterLayout& layout,
                           const AnalyticAssumptions& assumptions, SequencePart part,
                           DeviceId source, DeviceId target, Duration tensor_sum) {
  const Calibration constants = constants_of(assumptions, layout.first_device());
  const Bytes boundary =
      boundary_bytes(plan.model, part, plan.microbatch_size, bytes_of(assumptions.format));
  const Duration time = layout.transfer(source, target, boundary, constants) +
                        Duration(std::llround(constants.transfer_s * 1e9));
  // What a group's members got a share of each, they gather: the second half of a sum.
  return assumptions.sequence_parallel ? time : time + tensor_sum / 2;
}

}  // namespace tandem
