#pragma once
// ClusterCandidate: a plan of a model on a cluster, as it was priced and simulated.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "planner/cluster/cluster_setup.h"
#include "planner/cluster/plan_period.h"

namespace tandem {

/// A plan as it was simulated.
struct ClusterCandidate {
  /// Asks set_up_on_cluster() for this plan, and nothing else.
  ClusterRequest request;
  Plan plan;  // with its stages and predictions; without a profile
  WeightSemantics weights = WeightSemantics::vanilla;
  double period_s = 0.0;
  bool contention = false;  // the period counts it
  bool exact = true;        // or the period is a mean, as no repetition was seen
  Bytes peak_bytes = 0;     // of the fullest device
  Bytes least_room = 0;     // that a device has left, beside its reserve; negative: it does not fit
  std::size_t devices = 0;
  std::optional<double> usd = {};  // of a step; empty: a device has no price
  double value = 0.0;              // that the question's objective asks the least of
};

/// Of prices and their period. REQUIRES: the request says its global batch.
ClusterCandidate candidate_of(ClusterRequest request, ClusterPrices made,
                              const FoundPeriod& period);

/// By its value, then its time, devices and memory, and what is simpler.
bool better(const ClusterCandidate& a, const ClusterCandidate& b);

/// What is searched, but for the orders of devices and nodes, the cut and extra microbatches in
/// flight, of which each shape has its best.
struct CandidateShape {
  std::string schedule;
  std::uint16_t devices, width, chunks;
  std::int32_t slices, microbatch_size, tensor;
  Recompute recompute;
  bool sharded_optimizer;
  friend auto operator<=>(const CandidateShape&, const CandidateShape&) = default;
};
CandidateShape shape_of(const ClusterCandidate& candidate);

/// In what they make again, and in nothing else.
bool differ_in_recomputation(const ClusterCandidate& a, const ClusterCandidate& b);

}  // namespace tandem
