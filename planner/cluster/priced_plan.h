#pragma once
// price_on_cluster(): a plan and a cluster → what simulate() takes, with nothing measured.
//
//   const Cluster cluster(cluster_of_nodes("2xp3.16xlarge"));
//   const PricedPlan priced = price_on_cluster(
//       {.model = model_of_name("gpt2-xl"), .schedule = "1f1b",
//        .request = {.devices = 8, .microbatches = 32, .width = 2}},
//       cluster, NumberFormat::fp16);
//   const SimulationResult result = simulate(priced.program, priced.prices, {});

#include "core/base/table.h"
#include "core/base/units.h"
#include "core/model/cluster.h"
#include "core/model/plan.h"
#include "core/program/cost.h"
#include "core/program/program.h"

namespace tandem {

/// A plan on a cluster, ready to be simulated; its tables are by device of one pipeline.
struct PricedPlan {
  Plan plan;  // with its stages and the bytes predicted for each device; without a profile
  Program program;
  CostTable prices = {};                 // of the program
  Table<DeviceId, Bytes> needed = {};    // in all, by a framework (framework_memory())
  Table<DeviceId, Bytes> capacity = {};  // of the device, or of the smallest that stands for it

  bool fits() const;
};

/// Cuts the model so that the busiest stage computes as little as can be, of the cuts that fit if
/// there are any, and prices it: layers by the roofline of their kernels, at 0.65 of a device's
/// peak and 0.8 of its memory's rate, transfers and sums (rings) by the links that they cross, at
/// 0.8 of theirs. `format` is that of weights, gradients and activations; with 16 bits the
/// optimizer keeps a copy in 32 (ZeRO, arXiv 1910.02054), activations are counted as in arXiv
/// 2205.05198, table 2. Stage s of pipeline r is on device s · width + r of the cluster; the others
/// are idle. Of `plan` its stages, profile and predictions do not count. Throws UsageError for an
/// unknown schedule; InputError where that can't serve the plan, the cluster has too few devices,
/// the model has fewer layers than there are stages, or a device has no peak for the format.
PricedPlan price_on_cluster(Plan plan, const Cluster& cluster, NumberFormat format);

}  // namespace tandem
