#include "core/model.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, kLayerKinds> kLayerNames{
    "embedding", "attention", "mlp", "head", "linear", "squared_error"};
constexpr std::array<std::string_view, 3> kOptimizerNames{"sgd", "momentum", "adamw"};

std::int64_t boundary_elements(const ModelSpec& model, std::int32_t microbatch_size) {
  return std::int64_t{microbatch_size} * model.sequence * model.width;
}

/// The stash of a stage: what its layers leave, the values between them, and the numbers that the
/// data gave a linear model's first layer, which no transfer keeps.
std::int64_t stash_elements(const ModelSpec& model, const std::vector<LayerKind>& kinds,
                            LayerRange layers, std::int32_t microbatch_size, Recompute recompute) {
  const std::int64_t boundary = boundary_elements(model, microbatch_size);
  std::int64_t elements = (layers.size() - 1) * boundary;
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    elements += footprint(model, kind, microbatch_size, recompute).stash;
  }
  const bool reads_numbers = layers.first == 0 && model.architecture == Architecture::linear;
  return reads_numbers ? elements + boundary : elements;
}

/// Gradients inside the layers and between them.
std::int64_t kept_elements(const ModelSpec& model, const std::vector<LayerKind>& kinds,
                           LayerRange layers, std::int32_t microbatch_size, Recompute recompute) {
  std::int64_t elements = (layers.size() - 1) * boundary_elements(model, microbatch_size);
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    elements += footprint(model, kind, microbatch_size, recompute).scratch;
  }
  return elements;
}

/// Of a whole backward: one layer's scratch at a time, and the gradients on its two sides.
std::int64_t workspace_elements(const ModelSpec& model, const std::vector<LayerKind>& kinds,
                                LayerRange layers, std::int32_t microbatch_size,
                                Recompute recompute) {
  std::int64_t largest = 0;
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
    largest = std::max(largest, footprint(model, kind, microbatch_size, recompute).scratch);
  }
  const std::int64_t between = std::min(2, layers.size() - 1);
  return largest + between * boundary_elements(model, microbatch_size);
}

}  // namespace

std::string_view name(LayerKind kind) { return kLayerNames[static_cast<std::size_t>(kind)]; }

std::string_view name(OptimizerKind kind) {
  return kOptimizerNames[static_cast<std::size_t>(kind)];
}

std::int32_t optimizer_states(OptimizerKind kind) { return static_cast<std::int32_t>(kind); }

std::vector<LayerKind> layers_of(const ModelSpec& model) {
  std::vector<LayerKind> layers;
  if (model.architecture == Architecture::linear) {
    layers.assign(static_cast<std::size_t>(model.blocks), LayerKind::linear);
    layers.push_back(LayerKind::squared_error);
    return layers;
  }
  layers.push_back(LayerKind::embedding);
  for (std::int32_t block = 0; block < model.blocks; ++block) {
    layers.push_back(LayerKind::attention);
    layers.push_back(LayerKind::mlp);
  }
  layers.push_back(LayerKind::head);
  return layers;
}

std::int64_t parameters_of(const ModelSpec& model, LayerKind kind) {
  const std::int64_t d = model.width;
  switch (kind) {
    case LayerKind::embedding:
      return (std::int64_t{model.vocabulary} + model.sequence) * d;
    case LayerKind::attention:
      return 4 * d * d + 6 * d;
    case LayerKind::mlp:
      return 8 * d * d + 7 * d;
    case LayerKind::head:
      return (model.vocabulary + 2) * d;
    case LayerKind::linear:
      return d * d;
    case LayerKind::squared_error:
      return 0;
  }
  TANDEM_CHECK(false, static_cast<int>(kind));
  return 0;
}

std::int64_t parameter_count(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const LayerKind kind : layers_of(model)) count += parameters_of(model, kind);
  const bool shares = model.architecture == Architecture::gpt2 && model.tied;
  return shares ? count - std::int64_t{model.vocabulary} * model.width : count;
}

LayerFootprint footprint(const ModelSpec& model, LayerKind kind, std::int32_t microbatch_size,
                         Recompute recompute) {
  const std::int64_t tokens = std::int64_t{microbatch_size} * model.sequence;
  const std::int64_t d = model.width;
  const bool drops = recompute == Recompute::selective;
  const auto with = [drops](std::int64_t stash, std::int64_t scratch, std::int64_t cheap) {
    return drops ? LayerFootprint{stash, scratch + cheap} : LayerFootprint{stash + cheap, scratch};
  };
  const std::int64_t norm = tokens * (d + 2);
  switch (kind) {
    case LayerKind::embedding:
      return with(tokens, 0, 0);
    case LayerKind::attention:
      return with(tokens * (4 * d + model.heads), tokens * 4 * d, norm);
    case LayerKind::mlp:
      return with(tokens * 4 * d, tokens * 5 * d, norm + tokens * 4 * d);
    case LayerKind::head:
      return with(tokens * model.vocabulary, tokens * d, norm);
    case LayerKind::linear:
      return {};
    case LayerKind::squared_error:
      return with(tokens * d, 0, 0);
  }
  TANDEM_CHECK(false, static_cast<int>(kind));
  return {};
}

StageBytes stage_bytes(const ModelSpec& model, LayerRange layers, std::int32_t microbatch_size,
                       OptimizerKind optimizer, Recompute recompute, Bytes element) {
  const std::vector<LayerKind> kinds = layers_of(model);
  TANDEM_CHECK(0 <= layers.first && layers.first < layers.last &&
                   layers.last <= static_cast<std::int32_t>(kinds.size()),
               layers.first, layers.last, kinds.size());
  std::int64_t parameters = 0;
  for (std::int32_t layer = layers.first; layer < layers.last; ++layer) {
    parameters += parameters_of(model, kinds[static_cast<std::size_t>(layer)]);
  }
  const Bytes boundary = boundary_bytes(model, microbatch_size, element);
  StageBytes bytes;
  bytes[SlotKind::weights] = parameters * element;
  bytes[SlotKind::gradients] = parameters * element;
  bytes[SlotKind::stash] =
      stash_elements(model, kinds, layers, microbatch_size, recompute) * element;
  bytes[SlotKind::transit] = bytes[SlotKind::guest] = bytes[SlotKind::stash];
  bytes[SlotKind::input] = boundary;
  bytes[SlotKind::output] = boundary;
  bytes[SlotKind::output_gradient] = boundary;
  bytes[SlotKind::input_gradient] = boundary;
  bytes[SlotKind::kept_gradients] =
      kept_elements(model, kinds, layers, microbatch_size, recompute) * element;
  bytes.optimizer = optimizer_states(optimizer) * parameters * element;
  bytes.workspace = workspace_elements(model, kinds, layers, microbatch_size, recompute) * element;
  if (recompute == Recompute::full) bytes.forward_workspace = bytes[SlotKind::stash];
  return bytes;
}

Bytes boundary_bytes(const ModelSpec& model, std::int32_t microbatch_size, Bytes element) {
  return boundary_elements(model, microbatch_size) * element;
}

}  // namespace tandem
