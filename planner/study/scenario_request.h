#pragma once
// ScenarioRequest: what one asks a simulation of, whatever says it — a schedule with plain costs, a
// plan with its profile, a model on a cluster. Comparisons, variations and sweeps change a request.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/memory/reserve.h"
#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "planner/cluster/cluster_setup.h"
#include "planner/study/perturbation.h"
#include "planner/study/timed_search.h"
#include "simulator/cost/plain_costs.h"
#include "simulator/scenario.h"

namespace tandem {

/// A schedule by its name, or a user's, with plain costs.
struct PlainRequest {
  const ScheduleTraits* traits = nullptr;         // null: the user's
  ScheduleRequest request = {};                   // of a user's: as far as its text tells
  std::shared_ptr<const Schedule> schedule = {};  // the user's
  PlainCosts costs = {};
  std::int32_t microbatch_size = 1;  // samples
};

/// The links and the memory that a plan gets, in place of this machine's.
struct PlanOnCluster {
  std::shared_ptr<const Cluster> cluster = {};
  DeviceOrder order = DeviceOrder::replicas_first;
  AnalyticAssumptions assumptions = {};  // of links
};

/// A plan file and the profile that prices it.
struct PlanFileRequest {
  std::string path;  // for messages, and to find what the plan names
  std::shared_ptr<const Plan> plan = {};
  std::shared_ptr<const Profile> profile = {};  // null: only program and memory are asked for
  std::optional<double> link_rate = {};  // bytes/s of links between devices; empty: memory, or
  std::optional<PlanOnCluster> on = {};  // those of a cluster
  std::optional<bool> global_norm = {};  // in place of what the plan says
  bool post_validation = false;          // whatever it says
  Storage storage = Storage::f32;        // of what it is to be trained in
};

struct ScenarioRequest {
  std::variant<PlainRequest, PlanFileRequest, ClusterRequest> source;
  TransferLanes lanes = TransferLanes::shared;
  bool blocking_transfers = false;   // devices do not compute while they send or receive
  bool contention = false;           // on a cluster: links are shared through time
  double compute_slowdown = 1.0;     // of what is computed while data moves, then
  std::optional<Bytes> memory = {};  // of each device, but on a cluster, whose devices say it
  Reserve reserve = {};              // of that
  std::vector<Perturbation> perturbations = {};
  bool vanilla_only = false;  // refuses all but vanilla semantics

  const ClusterRequest* cluster() const { return std::get_if<ClusterRequest>(&source); }
  const PlainRequest* plain() const { return std::get_if<PlainRequest>(&source); }
  const PlanFileRequest* plan() const { return std::get_if<PlanFileRequest>(&source); }
};

/// Whether the schedule is searched for.
bool searches(const ScenarioRequest& request);

/// The schedule by its name; null: a plan's or a user's.
const ScheduleTraits* schedule_of(const ScenarioRequest& request);

/// The same of another schedule: what it does not take is not asked of it; where it takes chunks
/// and `stages` is above 1, so many stages on each device. REQUIRES: schedule_of() is not null.
void set_schedule(const ScheduleTraits& traits, std::size_t stages, ScenarioRequest& request);

/// Microbatches of a batch that were asked for; empty: none were, or a file says them.
std::optional<std::int64_t> microbatches_of(const ScenarioRequest& request);
/// REQUIRES: microbatches_of() is not empty, or the request is of a cluster.
void set_microbatches(std::int64_t microbatches, ScenarioRequest& request);

/// A request made ready: what is simulated, and what led to it.
struct PreparedScenario {
  Scenario scenario;
  ScheduleRequest request = {};              // that made its schedule
  std::optional<Plan> plan = {};             // of a file or a cluster
  std::optional<Profile> profile = {};       // that priced a plan
  std::optional<ClusterSetup> cluster = {};  // but its program and memory, which the scenario has
  std::optional<OrderSearch> search = {};    // of the schedule `search`
  std::vector<std::string> warnings = {};
};

/// Throws InputError, InfeasibleError where a user's schedule is not right, and UsageError for what
/// does not go together. `watch` is over a search.
PreparedScenario prepare_scenario(const ScenarioRequest& request, const SearchWatch& watch = {});

}  // namespace tandem
