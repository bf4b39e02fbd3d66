#include "planner/cluster/cluster_candidate.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace tandem {

namespace {

auto rank(const ClusterCandidate& candidate) {
  const ScheduleRequest& request = candidate.plan.request;
  return std::tuple(candidate.value, candidate.period_s, candidate.devices, candidate.peak_bytes,
                    request.chunks, request.recompute, -candidate.plan.microbatch_size,
                    candidate.request.assumptions.sharded_optimizer, request.extra_in_flight);
}

}  // namespace

bool better(const ClusterCandidate& a, const ClusterCandidate& b) { return rank(a) < rank(b); }

CandidateShape shape_of(const ClusterCandidate& candidate) {
  const ScheduleRequest& request = candidate.plan.request;
  const AnalyticAssumptions& assumptions = candidate.request.assumptions;
  return {.schedule = candidate.plan.schedule,
          .devices = request.devices,
          .width = request.width,
          .chunks = request.chunks,
          .slices = request.slices.count,
          .microbatch_size = candidate.plan.microbatch_size,
          .tensor = assumptions.tensor,
          .recompute = request.recompute,
          .sharded_optimizer = assumptions.sharded_optimizer};
}

bool differ_in_recomputation(const ClusterCandidate& a, const ClusterCandidate& b) {
  CandidateShape shape = shape_of(a);
  shape.recompute = b.plan.request.recompute;
  return shape == shape_of(b) && a.plan.stages == b.plan.stages &&
         a.plan.request.extra_in_flight == b.plan.request.extra_in_flight;
}

ClusterCandidate candidate_of(ClusterRequest request, ClusterPrices made,
                              const FoundPeriod& period) {
  ClusterCandidate one;
  one.period_s = period.seconds;
  one.contention = period.contended;
  one.exact = period.exact;
  one.weights = find_schedule(made.plan.schedule).weights;
  one.devices = std::size_t{made.plan.request.width} * made.plan.request.devices *
                static_cast<std::size_t>(request.assumptions.tensor);
  one.least_room = std::numeric_limits<Bytes>::max();
  Prediction predicted{.period_s = one.period_s,
                       .samples_per_s = static_cast<double>(*request.global_batch) / one.period_s,
                       .peak_bytes = {}};
  for (const DeviceId device : ids(made.memory)) {
    const Bytes bytes = made.memory[device].total();
    one.peak_bytes = std::max(one.peak_bytes, bytes);
    one.least_room = std::min(one.least_room, made.usable[device] - bytes);
    predicted.peak_bytes.push_back(bytes);
  }
  one.plan = std::move(made.plan);
  one.plan.predicted = std::move(predicted);
  one.request = std::move(request);
  return one;
}

}  // namespace tandem
