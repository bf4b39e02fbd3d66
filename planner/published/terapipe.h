#pragma once
// TeraPipe's planner (Li et al., ICML 2021, arXiv 2102.07988): how many sequences a microbatch has,
// and into what slices each is cut, on a given number of equal stages.

#include <cstdint>
#include <functional>
#include <vector>

#include "simulator/cost/slice_programme.h"

namespace tandem {

struct TeraPipePlan {
  std::int32_t tensor = 1, depth = 1, width = 1, microbatch_size = 1;
  std::int64_t microbatches = 1;  // of a batch in each pipeline
  FastestSlices slices = {};      // their value: of a step
};

struct TeraPipeQuestion {
  std::int64_t global_batch = 1;
  std::int32_t devices = 1, blocks = 1;        // at most; of the model
  std::vector<std::int32_t> tensors;           // degrees
  std::vector<std::int32_t> microbatch_sizes;  // to choose from
  /// Those of a plan whose slices are not known yet.
  std::function<FastestSlices(const TeraPipePlan&)> slices;
};

/// The plans of a layout, one for each size of a microbatch, the shortest step first: by the
/// paper's equation 5, for forward and backward together, microbatches · Σ t + (depth - 1) · max t,
/// t of a slice and its transfers. That counts neither memory, nor sums over replicas, nor the
/// update. The paper's batch may have microbatches of several sizes; here they are of one.
using TeraPipeLayout = std::vector<TeraPipePlan>;

/// One for each tensor degree and depth, which the planner is told: depths of two or more that
/// divide the blocks. As many pipelines as there are devices for share the batch.
std::vector<TeraPipeLayout> plan_terapipe(const TeraPipeQuestion& question);

}  // namespace tandem
