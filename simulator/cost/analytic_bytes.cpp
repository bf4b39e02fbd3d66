// Bytes of a transformer's stages from their shapes.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/memory/recomputed_layers.h"
#include "core/memory/stage_bytes.h"
#include "core/memory/storage.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/transformer_share.h"

namespace tandem {

namespace {

constexpr double kMostBytes = 0x1p42;  // of a slot

/// Queries, keys, values, and what is made of these.
double heads_elements(const TransformerShare& shape) {
  return shape.tokens * (shape.queries + shape.keys + shape.values + shape.attended);
}

/// The narrow channels that they are made of; without the part of keys that heads share.
double latent_elements(const TransformerShare& shape) {
  const LatentAttention& latent = shape.built.latent;
  return shape.split_tokens * (latent.query_rank + latent.key_value_rank);
}

/// Inputs of a layer's products, and gradients of their outputs.
double product_elements(LayerKind kind, const TransformerShare& shape) {
  const double elements = shape.split_tokens * shape.width;
  const double experts = shape.built.experts > 0 ? 2 * shape.mlp_rows * shape.width : 0;
  if (kind == LayerKind::attention) {
    return 2 * elements + heads_elements(shape) + 2 * latent_elements(shape);
  }
  if (kind == LayerKind::mlp) {
    return 2 * elements + shape.mlp_rows * (shape.mlp + shape.inner) + experts +
           shape.tokens * (shape.shared + shape.shared_inner);
  }
  return kind == LayerKind::head ? elements + shape.tokens * shape.vocabulary : 0;
}

/// Bytes of one microbatch in a layer, whose input is the boundary's.
struct ActivationBytes {
  double stash = 0, kept = 0, scratch = 0;
  double context = 0;  // of the stash, keys and values
};

ActivationBytes activation_bytes(const ModelSpec& model, LayerKind kind,
                                 const TransformerShare& shape, Recompute recompute,
                                 const AnalyticAssumptions& assumptions) {
  const auto wide = static_cast<double>(bytes_of(assumptions.format));
  // What a product reads that nothing else does is kept as it reads it.
  const bool in_fp8 = has_fp8_weights(kind, assumptions.format);
  const double read = in_fp8 ? kFp8Bytes : wide;
  const double elements = shape.split_tokens * shape.width;
  // Products read all of a sequence that is split: it is gathered again in the backward.
  const double gathered = shape.split_tokens < shape.tokens ? wide * shape.tokens * shape.width : 0;
  const double mask = mask_bytes(shape.built.dropout);
  const bool stores_scores =
      assumptions.attention == AttentionKernel::plain && recompute != Recompute::selective;
  ActivationBytes made;
  auto& [stash, kept, scratch, context] = made;
  switch (kind) {
    case LayerKind::embedding:
      stash = mask * elements + (shape.built.norm_first ? 0 : wide * elements);
      break;
    case LayerKind::attention:
      // Output of the norm, q, k, v, weighted values; mask of the output. Narrow channels before
      // their norms and behind them.
      stash = (read + mask) * elements + wide * heads_elements(shape) +
              (wide + read) * latent_elements(shape);
      context = wide * shape.tokens * (shape.keys + shape.values);
      if (in_fp8) stash += read * shape.tokens * shape.queries;  // the core's backward reads them
      if (shape.built.head_norm) stash += wide * shape.tokens * (shape.queries + shape.keys);
      if (shape.built.output_norm) stash += wide * elements;
      if (stores_scores) stash += (2 * wide + mask) * shape.scores;
      // The gradients of q, k and v are kept in their place.
      kept = wide * elements;
      scratch = kept + gathered + wide * shape.tokens * (shape.queries + shape.keys + shape.values);
      if (assumptions.attention == AttentionKernel::plain) scratch += 2 * wide * shape.scores;
      break;
    case LayerKind::mlp:
      // Output of the norm, input and output of the activation; mask of the output.
      stash = (read + mask) * elements + shape.mlp_rows * (wide * shape.inner + read * shape.mlp);
      if (shape.built.output_norm) stash += wide * elements;
      // That of the activation's input is kept in its place.
      kept = wide * elements;
      scratch = kept + gathered +
                wide * std::max(shape.mlp_rows * shape.inner, shape.tokens * shape.shared_inner);
      stash += shape.tokens * (wide * shape.shared_inner + read * shape.shared);
      if (shape.built.experts > 0) {
        // What chose the experts, the tokens' copies and what the experts made of them.
        stash += wide * shape.tokens * shape.built.experts;
        stash += 2 * wide * shape.mlp_rows * shape.width;
        kept += wide * shape.mlp_rows * shape.width;
        scratch += wide * shape.mlp_rows * shape.width;
      }
      break;
    case LayerKind::head:
      stash = (shape.built.norm_first ? wide : 0) * elements +
              kLossBytes * shape.tokens * shape.vocabulary;
      if (shape.built.masked_head) stash += 3 * wide * elements;
      kept = scratch = wide * shape.tokens * shape.vocabulary;
      break;
    case LayerKind::dense_mlp:
    case LayerKind::linear:
    case LayerKind::squared_error:
      check_transformer(model);
  }
  return made;
}

/// What Muon makes its largest matrix orthogonal in: the slope, not rounded, and the matrix; its
/// smaller product with itself, and the square of that.
double update_scratch(const ModelSpec& model, LayerKind kind, Optimizer optimizer, double wide) {
  if (optimizer.kind != OptimizerKind::muon) return 0.0;
  double most = 0.0;
  for (const HiddenMatrices& matrix : hidden_matrices(model, kind)) {
    const double least = static_cast<double>(std::min(matrix.rows, matrix.columns));
    const double size = static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
    most = std::max(most, (kStateBytes + wide) * (size + least * least));
  }
  return most;
}

LayerBytes layer_bytes(const ModelSpec& model, LayerKind kind, const TransformerShare& shape,
                       Optimizer optimizer, Recompute recompute,
                       const AnalyticAssumptions& assumptions) {
  const Bytes element = bytes_of(assumptions.format);
  const double parameters = parameters_of_share(model, kind, assumptions.tensor);
  const auto wide = static_cast<double>(element);
  const double states = states_of_share(model, kind, optimizer, assumptions.tensor) +
                        (element < kStateBytes ? parameters : 0.0);
  const auto [stash, kept, scratch, context] =
      activation_bytes(model, kind, shape, recompute, assumptions);
  const bool in_fp8 = has_fp8_weights(kind, assumptions.format);
  const double read = in_fp8 ? kFp8Bytes : wide;
  const double weights = wide + (in_fp8 ? 2 * kFp8Bytes : 0);
  const double all = stash + kept + scratch + parameters * (weights + wide) + kStateBytes * states;
  if (!(all < kMostBytes)) {
    throw InputError(
        fmt::format("layer {} of model {} would take {:.3g} bytes: expected at most "
                    "2^42",
                    name(kind), model.name, all));
  }
  const auto bytes = [](double value) { return static_cast<Bytes>(value); };
  return {.weights = bytes(weights * parameters),
          .gradients = bytes(wide * parameters),
          .optimizer = bytes(kStateBytes * states),
          .stash = bytes(stash),
          .kept = bytes(kept),
          .scratch = bytes(scratch),
          .update = bytes(update_scratch(model, kind, optimizer, wide)),
          .context = bytes(shape.tokens < shape.samples * model.sequence ? context : 0),
          .products = bytes(read * product_elements(kind, shape))};
}

StageBytes bytes_of_part(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                         Optimizer optimizer, Recompute recompute,
                         const AnalyticAssumptions& assumptions, std::int32_t shards,
                         SequencePart part) {
  const std::vector<LayerKind> kinds = layers_of(model);
  TANDEM_CHECK(0 <= layers.first && layers.first < layers.last &&
                   layers.last <= static_cast<std::int32_t>(kinds.size()),
               layers.first, layers.last, kinds.size());
  check_tensor(model, assumptions, part);
  check_whole_matrices(optimizer, assumptions);
  const auto share = [&](const ModelSpec& of) {
    return share_of(of, microbatch_size, assumptions.tensor, assumptions.sequence_parallel, part);
  };
  const TransformerShare shape = share(model);
  std::vector<LayerBytes> of_layers;
  const ModelSpec dense = with_dense_mlp(model);
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    of_layers.push_back(
        kind == LayerKind::dense_mlp
            ? layer_bytes(dense, LayerKind::mlp, share(dense), optimizer, recompute, assumptions)
            : layer_bytes(model, kind, shape, optimizer, recompute, assumptions));
  }
  StageBytes bytes =
      stage_bytes(of_layers,
                  boundary_bytes(model, part, microbatch_size, bytes_of(assumptions.format)) /
                      (assumptions.sequence_parallel ? assumptions.tensor : 1),
                  recomputed_in_stage(model, layers, recompute));
  bytes.optimizer = (bytes.optimizer + shards - 1) / shards;
  if (recompute == Recompute::stage) {  // of which later slices read keys and values meanwhile
    bytes.framework.remade = bytes.framework.all - static_cast<double>(bytes[SlotKind::context]);
  }
  // What comes from the stage before is held, too.
  if (layers.first > 0) bytes.framework.all += static_cast<double>(bytes[SlotKind::input]);
  for (const Bytes slot : bytes.slot) {
    if (static_cast<double>(slot) < kMostBytes) continue;
    throw InputError(fmt::format(
        "a stage of model {} would take {:.3g} bytes for a microbatch: expected at most 2^42",
        model.name, static_cast<double>(slot)));
  }
  return bytes;
}

}  // namespace

StageBytes analytic_stage_bytes(const ModelSpec& model, LayerRange layers,
                                std::int32_t microbatch_size, Optimizer optimizer,
                                Recompute recompute, const AnalyticAssumptions& assumptions,
                                std::int32_t shards, const std::vector<SequencePart>& slices) {
  const auto of = [&](SequencePart part) {
    return bytes_of_part(model, layers, microbatch_size, optimizer, recompute, assumptions, shards,
                         part);
  };
  if (slices.empty()) return of({});
  std::vector<StageBytes> each;
  for (const SequencePart slice : slices) each.push_back(of(slice));
  const std::vector<LayerKind> kinds = layers_of(model);
  const auto attentions = static_cast<double>(
      std::count(kinds.begin() + layers.first, kinds.begin() + layers.last, LayerKind::attention));
  const TransformerShare whole = share_of(model, microbatch_size, assumptions.tensor);
  const auto element = static_cast<double>(bytes_of(assumptions.format));
  return of_slices(
      each, static_cast<Bytes>(attentions * element * whole.tokens * (whole.keys + whole.values)));
}

}  // namespace tandem
