#include "core/model/model.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "core/base/check.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, kLayerKinds> kLayerNames{
    "embedding", "attention", "mlp", "head", "linear", "squared_error", "dense_mlp"};
constexpr std::array<std::string_view, kArchitectures> kArchitectureNames{"gpt2", "linear",
                                                                          "transformer"};
constexpr std::array<std::string_view, kOptimizers> kOptimizerNames{"sgd", "momentum", "adamw",
                                                                    "nadam", "muon"};
constexpr std::array<std::int32_t, kOptimizers> kMoments{0, 1, 2, 2, 2};
constexpr std::array<std::string_view, kDelayCorrections> kDelayCorrectionNames{
    "none", "error-feedback", "error-feedback-with-decay"};

std::int64_t boundary_elements(const ModelSpec& model, std::int32_t microbatch_size) {
  return std::int64_t{microbatch_size} * model.sequence * model.width;
}

}  // namespace

std::string_view name(LayerKind kind) { return kLayerNames[static_cast<std::size_t>(kind)]; }

std::string_view name(Architecture architecture) {
  return kArchitectureNames[static_cast<std::size_t>(architecture)];
}

std::string_view name(OptimizerKind kind) {
  return kOptimizerNames[static_cast<std::size_t>(kind)];
}

std::string_view name(DelayCorrection correction) {
  return kDelayCorrectionNames[static_cast<std::size_t>(correction)];
}

std::string describe(Optimizer optimizer) {
  if (optimizer.correction == DelayCorrection::none) return std::string(name(optimizer.kind));
  return fmt::format("{} with delay correction {}", name(optimizer.kind),
                     name(optimizer.correction));
}

std::int32_t optimizer_states(Optimizer optimizer) {
  return kMoments[static_cast<std::size_t>(optimizer.kind)] +
         (optimizer.correction != DelayCorrection::none ? 1 : 0);
}

std::int32_t matrix_states(Optimizer optimizer) {
  return optimizer_states(optimizer) - (optimizer.kind == OptimizerKind::muon ? 1 : 0);
}

std::int64_t layer_states(const ModelSpec& model, LayerKind kind, Optimizer optimizer) {
  std::int64_t hidden = 0;
  for (const HiddenMatrices& matrices : hidden_matrices(model, kind))
    hidden += matrices.parameters();
  return (parameters_of(model, kind) - hidden) * optimizer_states(optimizer) +
         hidden * matrix_states(optimizer);
}

std::vector<LayerKind> layers_of(const ModelSpec& model) {
  std::vector<LayerKind> layers;
  layers.reserve(2 * static_cast<std::size_t>(model.blocks) + 2);
  if (model.architecture == Architecture::linear) {
    layers.assign(static_cast<std::size_t>(model.blocks), LayerKind::linear);
    layers.push_back(LayerKind::squared_error);
    return layers;
  }
  layers.push_back(LayerKind::embedding);
  for (std::int32_t block = 0; block < model.blocks; ++block) {
    layers.push_back(LayerKind::attention);
    layers.push_back(block < model.shape.dense_blocks ? LayerKind::dense_mlp : LayerKind::mlp);
  }
  layers.push_back(LayerKind::head);
  return layers;
}

TransformerShape shape_of(const ModelSpec& model) {
  TANDEM_CHECK(model.architecture != Architecture::linear);
  if (model.architecture == Architecture::transformer) return model.shape;
  return {.key_value_heads = model.heads,
          .head_width = model.width / model.heads,
          .mlp_width = 4 * model.width,
          .positions = model.sequence};
}

ModelSpec with_dense_mlp(ModelSpec model) {
  TransformerShape& shape = model.shape;
  shape.mlp_width = shape.dense_mlp_width;
  shape.experts = shape.experts_per_token = shape.shared_experts = 0;
  shape.expert_bias = false;
  return model;
}

bool has_tied_ends(const ModelSpec& model) {
  return model.architecture != Architecture::linear && model.tied;
}

/// What makes the narrow channels of latent attention of the stream.
static std::vector<HiddenMatrices> narrowing_matrices(const ModelSpec& model) {
  const LatentAttention& latent = model.shape.latent;
  const std::int64_t d = model.width;
  std::vector<HiddenMatrices> matrices{{d, latent.key_value_rank + latent.rotary_width}};
  if (latent.query_rank > 0) matrices.push_back({d, latent.query_rank});
  return matrices;
}

/// What makes the heads of them, and the projection behind.
static std::vector<HiddenMatrices> matrices_of_latent_heads(const ModelSpec& model) {
  const TransformerShape& shape = model.shape;
  const LatentAttention& latent = shape.latent;
  const std::int64_t heads = model.heads, values = heads * shape.value_width();
  return {{latent.query_rank > 0 ? latent.query_rank : model.width, heads * shape.head_width},
          {latent.key_value_rank, heads * (shape.head_width - latent.rotary_width) + values},
          {values, model.width}};
}

static std::int64_t parameters_of(const std::vector<HiddenMatrices>& all) {
  std::int64_t parameters = 0;
  for (const HiddenMatrices& matrices : all) parameters += matrices.parameters();
  return parameters;
}

/// The narrow channels are made on each device, with their norms (Megatron's split).
static LayerParameters latent_parameters(const ModelSpec& model, std::int64_t norm) {
  const LatentAttention& latent = model.shape.latent;
  return {.shared = parameters_of(matrices_of_latent_heads(model)),
          .whole = parameters_of(narrowing_matrices(model)) + latent.key_value_rank +
                   latent.query_rank + norm};
}

LayerParameters layer_parameters(const ModelSpec& model, LayerKind kind) {
  const std::int64_t d = model.width;
  if (kind == LayerKind::linear) return {.shared = d * d};
  if (kind == LayerKind::squared_error) return {};
  if (kind == LayerKind::dense_mlp) return layer_parameters(with_dense_mlp(model), LayerKind::mlp);
  const TransformerShape shape = shape_of(model);
  const std::int64_t table = model.vocabulary * d, norm = shape.rms_norm ? d : 2 * d;
  const auto if_any = [](bool any, std::int64_t count) { return any ? count : 0; };
  switch (kind) {
    case LayerKind::embedding:
      return {.shared = table,
              .whole = (std::int64_t{shape.positions} + shape.segments) * d +
                       if_any(!shape.norm_first, norm)};
    case LayerKind::attention: {
      if (shape.is_latent()) return latent_parameters(model, norm);
      const std::int64_t queries = std::int64_t{model.heads} * shape.head_width;
      const std::int64_t made =
          queries + 2 * std::int64_t{shape.key_value_heads} * shape.head_width;
      return {.shared = d * (made + queries) + if_any(shape.query_bias, made),
              .whole = norm + if_any(shape.output_norm, norm) + if_any(shape.attention_bias, d) +
                       if_any(shape.head_norm, 2 * std::int64_t{shape.head_width})};
    }
    case LayerKind::mlp: {
      const std::int64_t wide = shape.mlp_width, inner = shape.gated ? 2 * wide : wide;
      const std::int64_t mlps = std::max(1, shape.experts) + shape.shared_experts;
      return {.shared = mlps * (d * (inner + wide) + if_any(shape.mlp_bias, inner)),
              .whole = norm + if_any(shape.output_norm, norm) + d * shape.experts +
                       if_any(shape.expert_bias, shape.experts) + if_any(shape.mlp_bias, mlps * d)};
    }
    case LayerKind::head:
      return {.shared = table + if_any(shape.masked_head, model.vocabulary),
              .whole = if_any(shape.norm_first, norm) +
                       if_any(shape.masked_head, d * d + d + norm) +
                       if_any(shape.pooler, d * d + d) + if_any(shape.sentence_head, 2 * d + 2)};
    case LayerKind::linear:
    case LayerKind::squared_error:
    case LayerKind::dense_mlp:
      break;
  }
  TANDEM_CHECK(false, static_cast<int>(kind));
  return {};
}

std::vector<HiddenMatrices> hidden_matrices(const ModelSpec& model, LayerKind kind) {
  const std::int64_t d = model.width;
  if (kind == LayerKind::linear) return {{d, d}};
  if (kind == LayerKind::dense_mlp) return hidden_matrices(with_dense_mlp(model), LayerKind::mlp);
  if (kind != LayerKind::attention && kind != LayerKind::mlp) return {};
  const TransformerShape shape = shape_of(model);
  if (kind == LayerKind::attention && shape.is_latent()) {
    std::vector<HiddenMatrices> all = narrowing_matrices(model);
    std::ranges::copy(matrices_of_latent_heads(model), std::back_inserter(all));
    return all;
  }
  if (kind == LayerKind::attention) {
    const std::int64_t queries = std::int64_t{model.heads} * shape.head_width;
    const std::int64_t keys = std::int64_t{shape.key_value_heads} * shape.head_width;
    return {{d, queries + 2 * keys}, {queries, d}};
  }
  const std::int64_t wide = shape.mlp_width,
                     mlps = std::max(1, shape.experts) + shape.shared_experts;
  return {{d, shape.gated ? 2 * wide : wide, mlps}, {wide, d, mlps}};
}

std::int64_t parameters_of(const ModelSpec& model, LayerKind kind) {
  return layer_parameters(model, kind).all();
}

std::int64_t parameter_count(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const LayerKind kind : layers_of(model)) count += parameters_of(model, kind);
  return has_tied_ends(model) ? count - std::int64_t{model.vocabulary} * model.width : count;
}

ModelSpec with_taken_experts(ModelSpec model) {
  model.shape.experts = model.shape.experts_per_token;
  return model;
}

std::int64_t active_parameter_count(const ModelSpec& model) {
  const TransformerShape& shape = model.shape;
  const std::int64_t blocks = model.blocks - shape.dense_blocks;
  const std::int64_t choice = (std::int64_t{model.width} + (shape.expert_bias ? 1 : 0)) * blocks *
                              (shape.experts - shape.experts_per_token);
  return parameter_count(with_taken_experts(model)) + choice;
}

Bytes boundary_bytes(const ModelSpec& model, std::int32_t microbatch_size, Bytes element) {
  return boundary_elements(model, microbatch_size) * element;
}

}  // namespace tandem
