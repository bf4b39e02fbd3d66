#pragma once
// What the kernels of a model ask for: memory of their grid, for partial sums and for rounded
// factors of products, and plans of fused attention.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/units.h"
#include "core/memory/storage.h"
#include "core/model/model.h"
#include "executor/backend/kernels.h"
#include "executor/cuda/kernels/attention_backward.h"
#include "executor/cuda/kernels/column_sums.h"
#include "executor/cuda/kernels/loss.h"
#include "executor/cuda/kernels/product.h"
#include "executor/cuda/kernels/squares.h"

namespace tandem::cuda {

/// What sums of squares need: those of a stage of all tensors.
inline Bytes sums_workspace_needed(const ModelSpec& model) {
  // A tied table is there twice.
  const std::int64_t elements =
      parameter_count(model) + std::int64_t{model.vocabulary} * model.width;
  constexpr std::int64_t kTensorsOfBlock = 12, kGains = 2, kOthers = 8;
  const std::int64_t of_block = kTensorsOfBlock + (model.shape.head_norm ? kGains : 0);
  return squares_workspace(elements, model.blocks * of_block + kOthers) *
         static_cast<Bytes>(sizeof(double));
}

/// What kernels of any stage of a model need at most.
inline Bytes workspace_needed(const ModelSpec& model, std::int32_t microbatch_size,
                              OptimizerKind optimizer, bool rounds_factors) {
  const std::int64_t rows = std::int64_t{microbatch_size} * model.sequence;
  const std::int64_t d = model.width, vocabulary = model.vocabulary;
  const bool is_linear = model.architecture == Architecture::linear;
  const TransformerShape shape =
      is_linear ? TransformerShape{.mlp_width = 4 * model.width} : shape_of(model);
  // Columns of the widest product in a block.
  const std::int64_t inside =
      std::max((shape.gated ? 2 : 1) * std::int64_t{shape.mlp_width},
               (model.heads + 2 * std::int64_t{shape.key_value_heads}) * shape.head_width);
  const auto bytes_of = []<class T>(T /*of*/, std::int64_t count) {
    return count * static_cast<std::int64_t>(sizeof(T));
  };
  Bytes most = bytes_of(0.0F, std::max(column_sums_workspace({.rows = rows, .width = inside}, 1),
                                       column_sums_workspace({.rows = rows, .width = d}, 2)));
  most = std::max(most, bytes_of(0.0F, attention_backward_workspace({.batch = microbatch_size,
                                                                     .sequence = model.sequence,
                                                                     .heads = model.heads,
                                                                     .width = d})));
  most = std::max(most, bytes_of(0.0, rows));  // losses
  most = std::max({most, sums_workspace_needed(model), bytes_of(0.0, sum_workspace(rows * d))});
  if (rounds_factors && optimizer == OptimizerKind::muon) {  // X·Xᵀ, the largest of its products
    for (const LayerKind kind : layers_of(model)) {
      for (const HiddenMatrices& matrix : hidden_matrices(model, kind)) {
        const auto [least, other] = std::minmax(matrix.rows, matrix.columns);
        most = std::max(most,
                        bytes_of(Bf16{}, rounded_factors_workspace(
                                             {.rows = least, .inner = other, .columns = least})));
      }
    }
  }
  if (rounds_factors) {
    for (const std::int64_t columns : {inside, vocabulary}) {
      most = std::max(most, bytes_of(Bf16{}, rounded_factors_workspace(
                                                 {.rows = rows, .inner = d, .columns = columns})));
    }
  }
  return most;
}

/// The attention of a model that fused kernels are wanted for: they compute in bfloat16 alone.
inline std::vector<AttentionShape> fused_attention_of(
    const ModelSpec& model, const std::vector<std::int32_t>& microbatch_sizes, Storage storage) {
  if (storage != Storage::bf16 || model.architecture == Architecture::linear) return {};
  // Of as many heads of keys as of queries, and as wide as the model.
  const TransformerShape built = shape_of(model);
  if (built.key_value_heads != model.heads || model.heads * built.head_width != model.width)
    return {};
  std::vector<AttentionShape> shapes;
  for (const std::int32_t size : microbatch_sizes) {
    shapes.push_back(
        {.batch = size, .sequence = model.sequence, .heads = model.heads, .width = model.width});
  }
  return shapes;
}

}  // namespace tandem::cuda
