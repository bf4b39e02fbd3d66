#pragma once
// ModelSpec: what is trained, as a list of layers that a stage may hold a range of; and the
// measured costs of them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "core/schedule.h"
#include "core/units.h"

namespace tandem {

enum class LayerKind : std::uint8_t {
  embedding,      // token + learned position embedding: tokens → (B, T, d)
  attention,      // x + Proj(CausalAttention(LayerNorm(x)))
  mlp,            // x + Proj(GELU(Fc(LayerNorm(x))))
  head,           // final LayerNorm, vocabulary projection, cross-entropy
  linear,         // y = xW, no bias: the model of exact arithmetic
  squared_error,  // ½·Σ(y − target)²
};
inline constexpr std::size_t kLayerKinds = 6;
std::string_view name(LayerKind kind);

enum class Architecture : std::uint8_t {
  gpt2,    // embedding, (attention, mlp) × blocks, head
  linear,  // linear × blocks, squared_error; float arithmetic on dyadic numbers is exact
};

/// A decoder-only transformer in the manner of GPT-2, or a chain of small linear maps.
struct ModelSpec {
  std::string name = "unnamed";
  Architecture architecture = Architecture::gpt2;
  std::int32_t blocks = 4;
  std::int32_t width = 128;       // d: channels of the residual stream
  std::int32_t heads = 4;         // divides width
  std::int32_t sequence = 128;    // T: tokens of one sample
  std::int32_t vocabulary = 256;  // V; 256: bytes
  bool tied = true;               // head's projection is the token embedding
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// Half-open range of layers.
struct LayerRange {
  std::int32_t first = 0, last = 0;
  std::int32_t size() const { return last - first; }
  friend auto operator<=>(const LayerRange&, const LayerRange&) = default;
};

/// The layers in order: embedding, attention, mlp, attention, mlp, …, head.
std::vector<LayerKind> layers_of(const ModelSpec& model);

/// Parameters of layer `layer`. The tied projection counts in the embedding, and in the head too
/// (it holds a copy).
std::int64_t parameters_of(const ModelSpec& model, LayerKind kind);

/// Parameters of the whole model, tied ones once: what a model card says.
std::int64_t parameter_count(const ModelSpec& model);

enum class OptimizerKind : std::uint8_t { sgd, momentum, adamw };
std::string_view name(OptimizerKind kind);
/// Numbers of state kept for each parameter: 0, 1, 2.
std::int32_t optimizer_states(OptimizerKind kind);

/// Element counts of what a layer keeps for one microbatch of `microbatch_size` samples.
struct LayerFootprint {
  std::int64_t stash = 0;    // forward → last gradient op
  std::int64_t scratch = 0;  // gradients inside the layer, and what selective recomputation makes
                             // again: kept from input- to weight-gradient where backward is split
};
LayerFootprint footprint(const ModelSpec& model, LayerKind kind, std::int32_t microbatch_size,
                         Recompute recompute);

/// Bytes of a stage's slots for the CPU and GPU executors: layers [first, last), `element` bytes a
/// number.
StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       OptimizerKind optimizer, Recompute recompute, Bytes element = 4);

/// Bytes that cross a stage boundary for one microbatch: B·T·d numbers.
Bytes boundary_bytes(const ModelSpec& model, std::int32_t microbatch_size, Bytes element = 4);

/// Measured times of one layer kind at one microbatch size.
struct LayerCost {
  LayerKind kind{};
  std::int32_t microbatch_size = 1;
  Duration forward{}, backward_input{}, backward_weight{},
      backward{};  // backward: whole, measured as such
  Duration update{};
  Duration selective_recompute{};  // what it adds to a backward; 0: the layer drops nothing
};

/// Time to hand `bytes` from one device to another.
struct TransferCost {
  Bytes bytes = 0;
  Duration time{};
};

/// What `tandem profile` measured on one machine.
struct Profile {
  std::string machine, date, command, backend;
  ModelSpec model;
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::string kernels = {};  // what computed the products, such as "onednn f32"; empty: not known
  std::int32_t busy_devices =
      1;  // how many devices computed at the same time while it was measured
  std::vector<LayerCost> layers;
  std::vector<TransferCost> transfers;
  Duration instruction_overhead{};  // the executor's own, an op
};

}  // namespace tandem
