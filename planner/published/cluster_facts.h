#pragma once
// ClusterFacts: a model on a cluster as published planners see it: times and bytes of its layers on
// one device, two levels of links.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/import/graph_file.h"
#include "planner/cluster/cluster_space.h"
#include "planner/published/pipedream.h"
#include "planner/published/piper.h"
#include "planner/published/terapipe.h"
#include "planner/published/two_bw.h"
#include "simulator/cost/cluster_layout.h"

namespace tandem {

/// To be used by one thread. `question` must outlive it. Throws InputError where devices or nodes
/// differ, which the planners do not know of.
class ClusterFacts {
 public:
  explicit ClusterFacts(const ClusterQuestion& question);

  /// Of at most 32 samples, that divide the batch; or the one asked for. Not those that take more
  /// bytes than are counted.
  std::vector<std::int32_t> microbatch_sizes() const;
  /// What a plan may fill of a device.
  Bytes memory() const;
  /// Gradients and the optimizer's state, over the weights.
  double state_share() const;
  /// The model as a chain of its layers.
  LayerGraph graph(std::int32_t microbatch_size) const;
  /// Devices of a node, and nodes; whole nodes where more than one is used.
  std::vector<PipeDreamLevel> levels() const;
  TwoBwQuestion two_bw() const;
  /// Its chain is what stands before the blocks, the blocks, and what stands behind them.
  PiperQuestion piper(std::int32_t microbatch_size) const;
  /// Where each of its layers begins, and the model ends.
  std::vector<std::int32_t> piper_layers() const;
  /// Throws InputError where sequences can't be sliced, or were measured whole.
  TeraPipeQuestion terapipe() const;

 private:
  /// Degrees that the model can be shared by, within a node.
  std::vector<std::int32_t> tensors() const;
  PiperDegree piper_degree(std::int32_t tensor, std::int32_t microbatch_size) const;
  Plan plan(std::int32_t microbatch_size) const;
  LayerTimes times(std::int32_t microbatch_size, const AnalyticAssumptions& assumptions) const;
  double rate(DeviceId from, DeviceId to) const;
  StageBytes whole(std::int32_t microbatch_size) const;

  const ClusterQuestion& question_;
  const AnalyticAssumptions assumptions_;
  std::shared_ptr<ClusterWays> ways_;
  std::int32_t devices_ = 1, a_node_ = 1;
};

}  // namespace tandem
