#pragma once
// A configuration set beside the best plan: the one that somebody runs with today. It is priced as
// the plans of a search are, and what one change of it alone would bring is searched.

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/cluster/cluster_search.h"

namespace tandem {

/// Sets a request up and simulates it, with contention or without. REQUIRES: it says its global
/// batch. Throws as set_up_on_cluster().
ClusterCandidate simulated_on_cluster(ClusterRequest request, bool contention = false);

/// Asks for a plan's schedule, shape, stages and recomputation, whatever it was made for, with the
/// question's cluster, batch and assumptions; its nodes in the plan's order, if they are the same
/// and the question gives none. Throws InputError where its model, optimizer or batch
/// is another.
ClusterRequest request_like(const ClusterQuestion& question, const Plan& plan);

/// Shapes that were simulated, fit and take less time than this one. There may be more in the
/// space, as a search leaves out what can't be the best.
std::size_t known_faster(const ClusterAnswer& answer, const ClusterCandidate& than);

/// What of a configuration may be anew while all else stays.
enum class Freedom : std::uint8_t {
  cut,       // the stages; where a tensor group can share sequences, it does (all below, too)
  schedule,  // and its chunks, slices and extra microbatches in flight
  microbatch_size,  // and so the number of microbatches
  recomputation,
  sharding,  // of the optimizer
  layout,    // tensor degree, depth, width and the order of devices
};
/// "the cut", "the schedule", …
std::string_view name(Freedom freedom);

struct FreedPlan {
  Freedom freedom{};
  std::optional<ClusterCandidate> best = {};  // empty: none fits
  bool proved = true;                         // not stopped early
};

/// The best plan within each freedom alone, and no other weight semantics than the configuration's:
/// of delayed weights are asked only where it has them. Ends with those so far when it is stopped.
std::vector<FreedPlan> best_by_one_change(const ClusterQuestion& question,
                                          const ClusterCandidate& of,
                                          const std::function<bool()>& stop = {});

}  // namespace tandem
