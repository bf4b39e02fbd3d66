#pragma once
// What one of the devices that share a transformer's layers has of them: for its times and bytes.

#include <cstdint>

#include "core/model/model.h"
#include "simulator/cost/analytic.h"

namespace tandem {

inline constexpr Bytes kMaskBytes = 1;   // of dropout, for an element
inline constexpr Bytes kLossBytes = 4;   // logits enter the loss in fp32
inline constexpr Bytes kStateBytes = 4;  // of the optimizer, in fp32

inline constexpr Bytes kFp8Bytes = 1;  // of what a product in fp8 reads

/// Whether a layer's weights are there in fp8, too: once as they are and once transposed, for the
/// products forward and backward (Transformer Engine on Hopper).
inline bool has_fp8_weights(LayerKind kind, NumberFormat format) {
  return format == NumberFormat::fp8 && (kind == LayerKind::attention || is_mlp(kind));
}

inline double mask_bytes(bool dropout) { return dropout ? static_cast<double>(kMaskBytes) : 0.0; }

/// Throws InputError.
void check_transformer(const ModelSpec& model);
/// The same where its heads, or that part of its sequences, can't be shared evenly.
void check_tensor(const ModelSpec& model, const AnalyticAssumptions& assumptions,
                  SequencePart part = {});

/// Throws ShapeError where the optimizer steps whole matrices, of which no device has one.
void check_whole_matrices(Optimizer optimizer, const AnalyticAssumptions& assumptions);

/// Parameters of a layer on each of the devices that share it.
double parameters_of_share(const ModelSpec& model, LayerKind kind, std::int32_t tensor);
/// Numbers of the optimizer's state of a layer on each of them.
double states_of_share(const ModelSpec& model, LayerKind kind, Optimizer optimizer,
                       std::int32_t tensor);

/// What one device has of a transformer: tokens and their channels.
struct TransformerShare {
  double samples, tokens, width, sequence, vocabulary;
  double split_tokens;  // of norms, dropout and residual sums: all, unless the sequence is split
  double seen;          // tokens that these may attend to: themselves and those before them
  double looks;         // of all pairs of these and those, the share that causal ones attend to
  double matrices, scores;       // of all such pairs, and their elements
  double queries, keys, values;  // channels
  double attended;               // of what queries make of values
  double mlp, inner;             // the latter into its activation, which the gate doubles
  double shared, shared_inner;   // the same of the experts that all tokens take
  double mlp_rows;               // tokens that enter an mlp: one once for each expert that it takes
  double mlps;                   // whose matrices those tokens need
  TransformerShape built;
};

/// Of that part of each sequence. Throws InputError where the model is no transformer.
TransformerShare share_of(const ModelSpec& model, std::int32_t microbatch_size, std::int32_t tensor,
                          bool sequence_parallel = false, SequencePart part = {});

}  // namespace tandem
