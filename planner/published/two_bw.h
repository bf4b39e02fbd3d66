#pragma once
// PipeDream-2BW's planner (arXiv 2006.09503, section 4 and appendix A): width, depth, microbatch
// size and recomputation of a model of equal blocks.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tandem {

/// Of the whole model on one device, for microbatches of one size.
struct TwoBwWork {
  double block_s = 0.0;                // forward and backward of a block
  double first_s = 0.0, last_s = 0.0;  // of what stands before the blocks, and behind them
  double boundary_bytes = 0.0;         // that cross from stage to stage
  double activation_bytes = 0.0;       // that all layers hold of a microbatch
};

struct TwoBwQuestion {
  std::int64_t global_batch = 1;
  std::int32_t devices = 1, devices_a_node = 1;  // at most; where links are fast
  std::int32_t blocks = 1;
  std::vector<std::int32_t> microbatch_sizes;  // to choose from
  double within_bytes_per_s = 1e9, between_bytes_per_s = 1e9;
  double memory_bytes = 0.0;  // of a device
  double weight_bytes = 0.0;  // of one version of the whole model
  double other_bytes = 0.0;   // gradients and the optimizer's state of the whole model
  bool flushes = false;       // PipeDream-Flush, of one weight version, in place of 2BW
  std::function<TwoBwWork(std::int32_t microbatch_size)> work;
};

enum class TwoBwExecution : std::uint8_t {
  unpipelined,  // a microbatch at a time passes the stages
  pipelined,
  recomputed,  // pipelined, and stages are made again
};
/// "without pipelining", "pipelined", "pipelined with recomputation".
std::string_view name(TwoBwExecution execution);

struct TwoBwPlan {
  std::int32_t width = 1, depth = 1, microbatch_size = 1;
  std::int64_t microbatches = 1;  // of a batch in each pipeline
  TwoBwExecution execution{};
  double step_s = 0.0;        // for the global batch
  double memory_bytes = 0.0;  // of a device
};

/// The plan of the highest throughput that fits, by the paper's own formulas: a stage takes
/// max(computation + 2 · boundary / rate, sum of gradients / microbatches) for each microbatch,
/// the slowest stage sets the pace, and there is no bubble; recomputation takes a third more. Where
/// the paper leaves a choice: a sum takes 2 (w − 1) / w of a stage's weights, links between
/// stages are those within a node where a whole pipeline and its replicas are; depths divide the
/// blocks; a batch has at least as many microbatches as stages, which 2BW needs; memory counts
/// gradients and optimizer once, which its formulas leave out. Empty: no plan fits.
std::optional<TwoBwPlan> plan_two_bw(const TwoBwQuestion& question);

}  // namespace tandem
