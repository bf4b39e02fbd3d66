#pragma once
// PlanCluster: what plan.json says of the cluster that a plan was made for.

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/files/constants_files.h"
#include "core/memory/cluster_assumptions.h"
#include "core/model/cluster.h"
#include "core/model/plan.h"
#include "core/text/json_reader.h"

namespace tandem {

/// All that the plan's times and bytes follow from, beside the plan itself.
struct PlanCluster {
  ClusterSpec cluster = {};
  std::string name = {};  // as it was asked for: of the catalogue's nodes, or a file
  /// But for what was measured, which is the plan's profile.
  AnalyticAssumptions assumptions = {};
  std::optional<CalibrationFile> calibration = {};  // that the assumptions' is of
  DeviceOrder order = DeviceOrder::replicas_first;
  bool blocking_transfers = false;  // devices don't compute while they send or receive
  bool contention = false;          // the prediction counts that they share links through time
};

/// Sets plan.cluster where a plan's object has one; notes what is wrong with it, and what of the
/// plan is not for a cluster.
void read_plan_cluster(const JsonReader& plan_object, Plan& plan);

nlohmann::ordered_json plan_cluster_json(const PlanCluster& on);

}  // namespace tandem
