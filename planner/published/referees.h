#pragma once
// Published planners as referees: what each makes of a model on a cluster, what it promises by its
// own model, and what the exact simulation makes of its plan.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cluster/cluster_search.h"

namespace tandem {

/// A plan as it was simulated.
struct SimulatedForm {
  std::string what;  // how it stands to the planner's: "its stages and replicas, …"
  ClusterCandidate made;
  double step_s = 0.0;             // of the question's batch; `made` may have another
  bool one_update_a_batch = true;  // what was asked; else it is another training
  bool untied = false;             // the model's embeddings are not shared: it is another model
  bool fits() const { return made.least_room >= 0; }
};

struct PublishedPlan {
  std::string layout;       // "depth 4 x width 2, microbatches of 8, pipelined"
  double promised_s = 0.0;  // of a step, by the planner's own model
  std::string promise;      // what that counts: "27.3 ms a microbatch at its slowest stage"
  std::vector<SimulatedForm> forms;        // that it was simulated in
  std::vector<std::string> not_simulated;  // other forms, and why

  /// Of the forms with an update a batch, the fastest that fits; none fits: the one that lacks
  /// least. Null: there is none.
  const SimulatedForm* best() const;
};

/// A row for each planner.
struct PublishedPlanner {
  std::string_view name, help;
  /// Empty: it finds no plan that fits by its own model. Throws InputError where the question is
  /// beyond its model. Of the question its tensor degree, depth, width, schedules, recomputation
  /// and sharding do not count.
  std::optional<PublishedPlan> (*plan)(const ClusterQuestion& question);
};
std::span<const PublishedPlanner> published_planners();
/// Throws UsageError.
const PublishedPlanner& find_published_planner(std::string_view name);

}  // namespace tandem
