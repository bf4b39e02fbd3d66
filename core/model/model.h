#pragma once
// ModelSpec: what is trained, as a list of layers that a stage may hold a range of; and the
// measured costs of them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/model/transformer_shape.h"

namespace tandem {

/// Layers that a model is made of. B: samples of a microbatch, T: tokens, d: width.
enum class LayerKind : std::uint8_t {
  embedding,      // token + learned position embedding: tokens → (B, T, d)
  attention,      // x + Proj(Attention(Norm(x))), causal in GPT-2
  mlp,            // x + Proj(GELU(Fc(Norm(x))))
  head,           // final norm, vocabulary projection, cross-entropy
  linear,         // y = xW, no bias: the model of exact arithmetic
  squared_error,  // ½·Σ(y − target)²
  dense_mlp,      // the mlp of a block without experts, where others have some
};
inline constexpr std::size_t kLayerKinds = 7;
inline constexpr std::size_t kTrainableLayerKinds = 6;  // these come first
/// "embedding", "attention", …, as in profiles.
std::string_view name(LayerKind kind);
/// Of a block's two layers the second.
constexpr bool is_mlp(LayerKind kind) {
  return kind == LayerKind::mlp || kind == LayerKind::dense_mlp;
}

/// Which layers follow one another.
enum class Architecture : std::uint8_t {
  gpt2,         // embedding, (attention, mlp) × blocks, head
  linear,       // linear × blocks, squared_error; float arithmetic on dyadic numbers is exact
  transformer,  // the layers of gpt2, built as TransformerShape says
};
inline constexpr std::size_t kArchitectures = 3;
/// "gpt2", "linear", "transformer".
std::string_view name(Architecture architecture);

/// A transformer, or a chain of small linear maps.
struct ModelSpec {
  std::string name = "unnamed";
  Architecture architecture = Architecture::gpt2;
  std::int32_t blocks = 4;
  std::int32_t width = 128;       // d: channels of the residual stream
  std::int32_t heads = 4;         // divides width, but in Architecture::transformer
  std::int32_t sequence = 128;    // T: tokens of one sample
  std::int32_t vocabulary = 256;  // V; 256: bytes
  bool tied = true;               // head's projection is the token embedding
  TransformerShape shape = {};    // of Architecture::transformer
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// That of a transformer; GPT-2's too. REQUIRES: the model is one.
TransformerShape shape_of(const ModelSpec& model);

/// A model whose `mlp` is this one's `dense_mlp`.
ModelSpec with_dense_mlp(ModelSpec model);

/// True where embedding and head hold one table, whose gradients are summed.
bool has_tied_ends(const ModelSpec& model);

/// Why the executor has no layers for the model, in words that follow "it"; empty: it has.
std::string why_untrainable(const ModelSpec& model);
/// Throws InputError with that reason.
void check_trainable(const ModelSpec& model);

/// Half-open range of layers.
struct LayerRange {
  std::int32_t first = 0, last = 0;
  std::int32_t size() const { return last - first; }
  friend auto operator<=>(const LayerRange&, const LayerRange&) = default;
};

/// The layers in order: embedding, attention, mlp, attention, mlp, …, head.
std::vector<LayerKind> layers_of(const ModelSpec& model);

/// Parameters of a layer, by what tensor parallelism does to them (Megatron's split).
struct LayerParameters {
  std::int64_t shared = 0;  // matrices and their biases
  std::int64_t whole = 0;   // on each device: norms, positions, biases of outputs
  std::int64_t all() const { return shared + whole; }
};

/// The tied projection counts in the embedding, and in the head too (it holds a copy).
LayerParameters layer_parameters(const ModelSpec& model, LayerKind kind);
std::int64_t parameters_of(const ModelSpec& model, LayerKind kind);

/// Matrices of one shape within a layer.
struct HiddenMatrices {
  std::int64_t rows = 0, columns = 0, count = 1;
  std::int64_t parameters() const { return rows * columns * count; }
};
/// Those of a layer that are neither tables nor in the head, as they are multiplied: what makes
/// queries, keys and values is one, and so is what enters a gated MLP.
std::vector<HiddenMatrices> hidden_matrices(const ModelSpec& model, LayerKind kind);

/// Parameters of the whole model, tied ones once: what a model card says.
std::int64_t parameter_count(const ModelSpec& model);
/// The parameters that compute for one token: without the experts that it does not take.
std::int64_t active_parameter_count(const ModelSpec& model);
/// A model of the experts alone that a token takes.
ModelSpec with_taken_experts(ModelSpec model);

/// How an update steps the weights.
enum class OptimizerKind : std::uint8_t {
  sgd,
  momentum,
  adamw,
  nadam,
  muon,  // of hidden matrices; the rest is AdamW's
};
inline constexpr std::size_t kOptimizers = 5;
/// "sgd", "momentum", "adamw", "nadam", "muon".
std::string_view name(OptimizerKind kind);

/// What is done about gradients that are one update late (2BW).
enum class DelayCorrection : std::uint8_t {
  none,
  error_feedback,  // x ← x − 2·u(t) + u(t−1), u the optimizer's whole step, rate included
                   // (arXiv 2606.30634); decoupled decay is apart: W ← (1 − ηλ)W first
  error_feedback_with_decay,  // the same, decay being a part of u
};
inline constexpr std::size_t kDelayCorrections = 3;
/// "none", "error-feedback", "error-feedback-with-decay".
std::string_view name(DelayCorrection correction);

/// What the state and the price of updates depend on. An OptimizerKind is one without correction.
struct Optimizer {
  OptimizerKind kind = OptimizerKind::adamw;
  DelayCorrection correction = DelayCorrection::none;

  constexpr Optimizer() = default;
  constexpr Optimizer(OptimizerKind of, DelayCorrection by = DelayCorrection::none)
      : kind(of), correction(by) {}
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};
/// "adamw", "adamw with delay correction error-feedback".
std::string describe(Optimizer optimizer);
/// Numbers of state kept for each parameter, but for those of hidden matrices: of SGD 0, of
/// momentum 1, of the others 2; one more where delay is corrected, for the step before.
std::int32_t optimizer_states(Optimizer optimizer);
/// The same for each parameter of hidden matrices: of Muon one less.
std::int32_t matrix_states(Optimizer optimizer);
/// Numbers of state of a layer.
std::int64_t layer_states(const ModelSpec& model, LayerKind kind, Optimizer optimizer);

/// Bytes that cross a stage boundary for one microbatch: B·T·d numbers.
Bytes boundary_bytes(const ModelSpec& model, std::int32_t microbatch_size, Bytes element = 4);

/// Measured times of one layer kind at one microbatch size.
struct LayerCost {
  LayerKind kind{};
  std::int32_t microbatch_size = 1;
  Duration forward{}, backward_input{}, backward_weight{},
      backward{};  // backward: whole, measured as such
  Duration update{};
  Duration selective_recompute{};          // what it adds to a backward; 0: the layer drops nothing
  std::optional<Duration> recompute = {};  // forward without its output; empty: as the forward
};

/// The same of layers on a slice of the sequence.
struct SliceCosts {
  std::int32_t tokens = 0, before = 0;  // of each sample: its own, and those that stand before them
  std::vector<LayerCost> layers;
};

/// Time to hand `bytes` from one device to another.
struct TransferCost {
  Bytes bytes = 0;
  Duration time{};
};

/// Times that `tandem profile` measured on one machine.
struct Profile {
  std::string machine, date, command, backend;
  ModelSpec model;
  Optimizer optimizer = {};
  std::string kernels = {};  // what computed the products, such as "onednn f32"; empty: not known
  std::int32_t busy_devices =
      1;  // how many devices computed at the same time while it was measured
  std::vector<LayerCost> layers;        // on whole sequences
  std::vector<SliceCosts> slices = {};  // as they were asked for
  std::vector<TransferCost> transfers;
  Duration instruction_overhead{};  // the executor's own, an op
};

}  // namespace tandem
