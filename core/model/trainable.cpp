// Which transformers the executor has layers for.

#include <array>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/model/model.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, kActivations> kActivationNames{"gelu", "silu", "other"};
constexpr std::array<std::string_view, kRotaryScalings> kScalingNames{"none", "llama3", "other"};

constexpr std::int32_t kWidestHead = 512;  // that rotary positions turn

std::string why_not_rotated(const TransformerShape& shape) {
  const RotaryPositions& rotary = shape.details.rotary;
  if (shape.positions > 0) return {};
  if (rotary.theta == 0.0)
    return "has rotary positions, and nothing says their base (\"rotary\": {\"theta\": …})";
  if (rotary.scaling == RotaryScaling::other)
    return "stretches its rotary positions by another rule than Llama 3's";
  if (shape.head_width % 2 != 0 || shape.head_width > kWidestHead) {
    return fmt::format(
        "has rotary positions and heads of {} channels: expected an even number, {} "
        "at most",
        shape.head_width, kWidestHead);
  }
  return {};
}

std::string why_no_mlp(const TransformerShape& shape) {
  if (shape.experts > 0) return "has experts";
  const Activation activation = shape.details.activation;
  if (activation == (shape.gated ? Activation::silu : Activation::gelu)) return {};
  if (shape.gated) return "gates its MLP by another function than SiLU";
  return "has another function in its MLP than GELU in its tanh form";
}

}  // namespace

std::string_view name(Activation activation) {
  return kActivationNames[static_cast<std::size_t>(activation)];
}

std::string_view name(RotaryScaling scaling) {
  return kScalingNames[static_cast<std::size_t>(scaling)];
}

std::string why_untrainable(const ModelSpec& model) {
  if (model.architecture != Architecture::transformer) return {};
  const TransformerShape& shape = model.shape;
  if (!shape.causal) return "attends to later tokens";
  if (shape.segments > 0) return "has token types";
  if (!shape.norm_first) return "has its norms behind attention and MLP";
  if (shape.output_norm) return "has norms of what attention and MLP make";
  if (shape.masked_head || shape.pooler || shape.sentence_head)
    return "has another head than the vocabulary's";
  if (shape.details.sliding_window > 0 && shape.details.sliding_window < model.sequence) {
    return fmt::format("attends to a sliding window of {} of its {} tokens",
                       shape.details.sliding_window, model.sequence);
  }
  if (std::string reason = why_no_mlp(shape); !reason.empty()) return reason;
  return why_not_rotated(shape);
}

void check_trainable(const ModelSpec& model) {
  const std::string reason = why_untrainable(model);
  if (reason.empty()) return;
  throw InputError(fmt::format(
      "model {}: it {}, so it can't be measured and trained here; it can be simulated on a cluster",
      model.name, reason));
}

}  // namespace tandem
