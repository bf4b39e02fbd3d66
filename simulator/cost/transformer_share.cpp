#include "simulator/cost/transformer_share.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

void check_transformer(const ModelSpec& model) {
  if (model.architecture != Architecture::linear) return;
  throw InputError(fmt::format(
      "model {}: a chain of linear maps has no analytic costs: give a profile", model.name));
}

void check_tensor(const ModelSpec& model, const AnalyticAssumptions& assumptions,
                  SequencePart part) {
  check_transformer(model);
  const std::int32_t tokens = part.is_whole() ? model.sequence : part.tokens;
  if (assumptions.sequence_parallel && tokens % assumptions.tensor != 0) {
    throw ShapeError(fmt::format(
        "model {}: a {} of {} can't be split evenly by the {} devices of --tensor", model.name,
        part.is_whole() ? "sequence" : "slice", tokens, assumptions.tensor));
  }
  const std::int32_t groups = shape_of(model).key_value_heads;
  if (model.heads % assumptions.tensor == 0 && groups % assumptions.tensor == 0) return;
  const std::string shared =
      groups == model.heads ? "" : fmt::format(", {} of them of keys and values,", groups);
  throw ShapeError(
      fmt::format("model {}: {} heads{} can't be shared evenly by the {} devices of --tensor",
                  model.name, model.heads, shared, assumptions.tensor));
}

double parameters_of_share(const ModelSpec& model, LayerKind kind, std::int32_t tensor) {
  const LayerParameters parameters = layer_parameters(model, kind);
  return static_cast<double>(parameters.whole) + static_cast<double>(parameters.shared) / tensor;
}

void check_whole_matrices(Optimizer optimizer, const AnalyticAssumptions& assumptions) {
  if (optimizer.kind != OptimizerKind::muon || assumptions.tensor == 1) return;
  throw ShapeError(fmt::format(
      "optimizer muon steps whole matrices, and each of the {} devices of --tensor has a part of "
      "them: it is priced with --tensor 1 alone",
      assumptions.tensor));
}

double states_of_share(const ModelSpec& model, LayerKind kind, Optimizer optimizer,
                       std::int32_t tensor) {
  if (optimizer.kind == OptimizerKind::muon)  // of whole layers
    return static_cast<double>(layer_states(model, kind, optimizer));
  return optimizer_states(optimizer) * parameters_of_share(model, kind, tensor);
}

TransformerShare share_of(const ModelSpec& model, std::int32_t microbatch_size, std::int32_t tensor,
                          bool sequence_parallel, SequencePart part) {
  check_transformer(model);
  const TransformerShape built = shape_of(model);
  const double samples = microbatch_size, head = built.head_width;
  const double sequence = part.is_whole() ? model.sequence : part.tokens;
  const double context = part.before + sequence;
  const double rows = samples * sequence * std::max(1, built.experts_per_token);
  const double mlp = static_cast<double>(built.mlp_width) / tensor;
  const double gate = built.gated ? 2 : 1;
  return {.samples = samples,
          .tokens = samples * sequence,
          .width = static_cast<double>(model.width),
          .sequence = sequence,
          .vocabulary = static_cast<double>(model.vocabulary) / tensor,
          .split_tokens = samples * sequence / (sequence_parallel ? tensor : 1),
          .seen = samples * context,
          .looks = (part.before + sequence / 2) / context,
          .matrices = samples * model.heads / tensor,
          .scores = samples * model.heads * sequence * context / tensor,
          .queries = model.heads * head / tensor,
          .keys = built.key_value_heads * head / tensor,
          .values = static_cast<double>(built.key_value_heads) * built.value_width() / tensor,
          .attended = static_cast<double>(model.heads) * built.value_width() / tensor,
          .mlp = mlp,
          .inner = gate * mlp,
          .shared = built.shared_experts * mlp,
          .shared_inner = built.shared_experts * gate * mlp,
          .mlp_rows = rows,
          .mlps = built.experts > 0 ? std::min<double>(built.experts, rows) : 1,
          .built = built};
}

}  // namespace tandem
