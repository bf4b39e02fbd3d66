#pragma once
// find_cluster_plans(): the best plan of a model on a cluster, and how much better any could be.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/cluster/cluster_candidate.h"
#include "planner/cluster/cluster_space.h"

namespace tandem {

/// What became of a schedule.
struct ScheduleOutcome {
  const ScheduleTraits* schedule = nullptr;
  std::optional<ClusterCandidate> best = {};  // of those simulated
  std::size_t simulated = 0, too_large = 0, refused = 0;
  double bound = 0.0;  // of its shapes that were not looked at none has less; 0: all were
};

/// Bounds are of the question's objective, as values are.
struct ClusterAnswer {
  /// Best first, of each shape its best. The first ten are; after them stand others that were
  /// found on the way. Empty: none fits.
  std::vector<ClusterCandidate> ranked;
  std::vector<ScheduleOutcome> schedules;
  std::vector<Rejected> rejected;
  /// Where none fits: of those that don't, one whose fullest device lacks least (nearest_miss()).
  std::optional<ClusterRequest> nearest = {};
  double bound = 0.0;  // no plan of the space has less
  /// No plan has less if its layers may be cut into stages in any way; and which might not.
  double any_cut = 0.0;
  std::string any_cut_of = {};
  std::size_t frames = 0, shapes = 0, simulated = 0;  // in the space; looked at; programs
  std::size_t contended = 0;                          // of these, with contention, too
  bool interrupted = false;                           // the best so far

  double gap() const { return ranked.front().value / bound - 1.0; }
};

/// Shapes by ascending bound, each simulated exactly, until no bound is below the best found, or
/// not by more than the question's gap; in every order of unequal nodes, unless one is given.
/// Where contention is asked for: no bound knows of anything but computation, of which it does not
/// let a device do more, so that they hold; only what still is of interest without it
/// (period_of_interest()), and fits, is simulated with it. Deterministic. Throws UsageError for
/// names of no schedule, InputError where nothing in the space can be priced, or what is looked for
/// costs the least and a device has no price. `stop` ends it with the best so far; empty: nothing
/// does.
ClusterAnswer find_cluster_plans(const ClusterQuestion& question,
                                 const std::function<bool()>& stop = {});

/// The same in the cluster's order of nodes alone. `elsewhere`: the least value that was found in
/// other orders, or infinity: what can't be less is not looked at.
ClusterAnswer find_in_node_order(const ClusterQuestion& question, const std::function<bool()>& stop,
                                 double elsewhere);

}  // namespace tandem
