#include "executor/checkpoint/library_model.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

bool is_like_gpt2(const ModelSpec& model, const TransformerShape& shape) {
  const bool has_biases = shape.query_bias && shape.attention_bias && shape.mlp_bias;
  const bool has_own_heads = shape.key_value_heads == model.heads && !shape.head_norm &&
                             model.heads * shape.head_width == model.width;
  return shape.positions > 0 && !shape.rms_norm && !shape.gated && has_biases && has_own_heads;
}

LibraryModel llama_like(const TransformerShape& shape) {
  if (shape.positions > 0 || !shape.rms_norm || !shape.gated) return LibraryModel::none;
  const bool has_all_or_no_bias = shape.query_bias == shape.attention_bias;
  if (!shape.head_norm && has_all_or_no_bias) return LibraryModel::llama;
  if (shape.mlp_bias) return LibraryModel::none;
  if (shape.head_norm) return has_all_or_no_bias ? LibraryModel::qwen3 : LibraryModel::none;
  return shape.query_bias ? LibraryModel::qwen2 : LibraryModel::none;
}

Json gpt2_config(const ModelSpec& model) {
  const TransformerShape shape = shape_of(model);
  Json json{{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"vocab_size", model.vocabulary},
            {"n_positions", shape.positions},
            {"n_ctx", shape.positions},
            {"n_embd", model.width},
            {"n_layer", model.blocks},
            {"n_head", model.heads},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", shape.details.norm_epsilon},
            {"initializer_range", shape.details.initial_deviation},
            {"tie_word_embeddings", model.tied},
            {"attn_pdrop", 0.0},
            {"embd_pdrop", 0.0},
            {"resid_pdrop", 0.0},
            {"bos_token_id", nullptr},  // else the library's own are taken
            {"eos_token_id", nullptr},
            {"torch_dtype", "float32"}};
  if (shape.mlp_width != 4 * model.width) json["n_inner"] = shape.mlp_width;
  return json;
}

Json scaling_config(const RotaryPositions& rotary) {
  if (rotary.scaling == RotaryScaling::none) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", rotary.factor},
          {"low_freq_factor", rotary.low_frequency_factor},
          {"high_freq_factor", rotary.high_frequency_factor},
          {"original_max_position_embeddings", rotary.original_positions}};
}

Json llama_config(const ModelSpec& model, std::string_view type, std::string_view class_name) {
  const TransformerShape& shape = model.shape;
  return {{"architectures", {class_name}},
          {"model_type", type},
          {"vocab_size", model.vocabulary},
          {"max_position_embeddings", model.sequence},
          {"hidden_size", model.width},
          {"num_hidden_layers", model.blocks},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", shape.key_value_heads},
          {"head_dim", shape.head_width},
          {"intermediate_size", shape.mlp_width},
          {"hidden_act", "silu"},
          {"rms_norm_eps", shape.details.norm_epsilon},
          {"initializer_range", shape.details.initial_deviation},
          {"rope_theta", shape.details.rotary.theta},
          {"rope_scaling", scaling_config(shape.details.rotary)},
          {"attention_bias", shape.attention_bias},
          {"mlp_bias", shape.mlp_bias},
          {"use_sliding_window", false},
          {"tie_word_embeddings", model.tied},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

}  // namespace

LibraryModel library_model(const ModelSpec& model) {
  if (model.architecture == Architecture::linear || !why_untrainable(model).empty())
    return LibraryModel::none;
  const TransformerShape shape = shape_of(model);
  return is_like_gpt2(model, shape) ? LibraryModel::gpt2 : llama_like(shape);
}

std::string library_config(const ModelSpec& model) {
  switch (library_model(model)) {
    case LibraryModel::none:
      return {};
    case LibraryModel::gpt2:
      return json_text(gpt2_config(model));
    case LibraryModel::llama:
      return json_text(llama_config(model, "llama", "LlamaForCausalLM"));
    case LibraryModel::qwen2:
      return json_text(llama_config(model, "qwen2", "Qwen2ForCausalLM"));
    case LibraryModel::qwen3:
      return json_text(llama_config(model, "qwen3", "Qwen3ForCausalLM"));
  }
  return {};
}

}  // namespace tandem
