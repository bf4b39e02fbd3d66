#pragma once
// A model on a cluster as it is asked for, and what was made of that: stages, shape, prices.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files/constants_files.h"
#include "core/model/cluster.h"
#include "planner/cluster/cluster_plan.h"
#include "simulator/scenario.h"

namespace tandem {

/// Of a batch, where nothing says how large it is.
inline constexpr std::int32_t kMicrobatchesADevice = 4;

/// Where bytes are worked out from shapes: what NVIDIA's driver, NCCL and the gaps of PyTorch's
/// allocator take beside is seen to be one to several GiB of a device's 16 to 80. Neither figure of
/// memory (MemoryFigures) has any of it. A plan's bytes are allocated as they are counted, so there
/// nothing is kept unless it is asked for.
inline constexpr Reserve kReserveOnCluster{.share = 0.06, .bytes = 0};

/// What is asked for. What `plan` says of width, depth, microbatches and stages does not count.
struct ClusterRequest {
  Plan plan;
  std::shared_ptr<const Cluster> cluster = {};
  std::string cluster_name = {};     // as it was given, such as "8xp3.16xlarge" or a file
  std::optional<Bytes> memory = {};  // of each device, in place of its own
  AnalyticAssumptions assumptions = {};
  std::optional<CalibrationFile> calibration = {};  // that they are of
  DeviceOrder order = DeviceOrder::replicas_first;
  StageCut cut = StageCut::balanced;
  /// Empty: of all shapes that use every device, the fastest that fits.
  std::optional<std::uint16_t> depth = {};
  std::optional<std::uint16_t> width = {};        // empty: as many as there are devices for
  std::optional<std::int32_t> microbatches = {};  // of a batch in each pipeline; or
  std::optional<std::int64_t> global_batch = {};  // samples of a batch; empty, too: 4 microbatches
                                                  // for each device
  /// Of the cluster, shared by requests of one thread; empty: nothing is known.
  std::shared_ptr<ClusterMemo> memo = {};
  bool blocking_transfers = false;  // devices don't compute while they send or receive
  std::string sequence_note = {};   // on where a long sequence comes from, for people
};

/// How one width did that was tried.
struct TriedShape {
  std::uint16_t width = 1, depth = 1;
  std::string refusal;         // empty: it was simulated
  double samples_per_s = 0.0;  // of an endless run
  bool fits = false;
};

struct ClusterSetup {
  ClusterRequest request;
  ClusterPlan made;
  std::vector<TriedShape> tried;  // where the shape was chosen: the chosen one, then the others

  const Cluster& cluster() const { return *request.cluster; }
  const AnalyticAssumptions& assumptions() const { return request.assumptions; }
  std::size_t devices_used() const;
  ModelUse use() const;
  /// How far off predictions of this kind are; empty: nobody has compared.
  std::optional<PredictionSpread> spread() const;
  /// What of a profile lies between what was measured.
  std::vector<std::string> warnings() const;
};

/// Of the cluster's first so many devices together.
double peak_flops_per_s(const Cluster& cluster, std::size_t devices, NumberFormat format);

/// The nodes of the catalogue by this name, their devices' memory as given. Throws InputError.
Cluster cluster_of_nodes(const std::string& name, std::optional<Bytes> memory);

/// Throws InputError where the assumptions' profile measured updates of another optimizer.
void check_measured_optimizer(const Plan& plan, const AnalyticAssumptions& assumptions);

/// Where no depth is asked for, of the widths that use all devices, in groups of
/// assumptions.tensor, at least two stages deep where the cluster allows, the fastest one that
/// fits; if none does, the one whose fullest device lacks least. Throws InputError where the
/// request can't be served, with the reason of the last where all widths are refused. REQUIRES: not
/// both microbatches and a global batch.
ClusterSetup set_up_on_cluster(ClusterRequest request);

/// Mean seconds of a batch of an endless run.
double period_s(const ClusterPlan& made, bool blocking_transfers);

}  // namespace tandem
