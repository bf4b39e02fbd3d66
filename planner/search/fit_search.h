#pragma once
// The search for what fits: which combinations of changes are tried, in which order, for how long;
// and how a plan may be changed to need less memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/search/nearest_fits.h"

namespace tandem {

/// A request on its way to another: its shape is worked out when all changes are known.
struct FitDraft {
  FitRequest request;
  std::size_t devices = 1;  // in use
  std::int64_t batch = 1;   // samples
};

/// Of one kind, how far it is changed: each makes less of the fullest device than the one before,
/// or is left out.
using FitStep = std::function<void(FitDraft&)>;
using FitSteps = std::array<std::vector<FitStep>, kFitChanges>;

struct Fullest {
  DeviceId device{};
  Bytes bytes = 0;
  bool fits = false;  // it, and all others
};

struct FitProblem {
  FitDraft from;
  FitSteps steps;
  /// Width, depth and microbatches. False: they don't come out even.
  std::function<bool(FitDraft&)> shape;
  /// What a request needs; may add its stages. Both may throw InputError: it makes nothing that
  /// runs.
  std::function<Fullest(FitRequest&)> judge;
};

std::vector<NearFit> search_fits(FitProblem problem);

// ---- The changes ----

/// Samples.
std::int64_t batch_of(const Plan& plan);

/// What any plan may change: no extra in flight, smaller microbatches, the plain schedule, a
/// pipeline drained more often, recomputation, a smaller batch.
FitSteps plain_steps(const FitRequest& request);

/// Pipelines of `least` to `most` stages, of each number that the plan's divides, or of any.
std::vector<FitStep> deeper_pipelines(const Plan& plan, std::size_t most, bool only_multiples);

/// Those, and what a cluster offers. `most_nodes`: that it may have; 0: as many as it has.
FitSteps cluster_steps(const FitRequest& request, const Cluster& cluster, std::size_t most_nodes);

}  // namespace tandem
