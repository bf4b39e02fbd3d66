#include "core/import/hugging_face_details.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/files/model_file.h"
#include "core/import/hugging_face.h"

namespace tandem {
namespace {

constexpr double kUsualTheta = 10'000.0;
constexpr std::int32_t kUsualWindow = 4096;

double number_or(const JsonReader& root, std::string_view key, double otherwise, double least) {
  const JsonReader value = root.optional(key);
  return is_given(value) ? value.number(least) : otherwise;
}

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

/// Families whose layers are the executor's, where nothing in a file says otherwise.
constexpr std::array<std::string_view, 4> kLikeLlama{"llama", "mistral", "qwen2", "qwen3"};

constexpr std::array<std::string_view, 5> kOfExperts{"mixtral", "qwen3_moe", "deepseek_v2",
                                                     "deepseek_v3", "kimi_k2"};

/// By the library's names (transformers, activations.py).
Activation activation_named(std::string_view function) {
  if (function == "silu" || function == "swish") return Activation::silu;
  if (function == "gelu_new" || function == "gelu_pytorch_tanh") return Activation::gelu;
  return Activation::other;
}

Activation read_activation(const JsonReader& root, std::string_view family) {
  for (const std::string_view key : {"hidden_act", "activation_function", "hidden_activation"}) {
    const JsonReader value = root.optional(key);
    if (is_given(value)) return activation_named(value.string());
  }
  if (family == "gpt2") return Activation::gelu;
  return is_one_of(kLikeLlama, family) || is_one_of(kOfExperts, family) ? Activation::silu
                                                                        : Activation::other;
}

RotaryScaling scaling_named(std::string_view type) {
  if (type == "default") return RotaryScaling::none;
  return type == "llama3" ? RotaryScaling::llama3 : RotaryScaling::other;
}

/// Of a "rope_scaling", or "rope_parameters" as the library writes it from version 5 on.
void read_scaling(const JsonReader& reader, RotaryPositions& rotary) {
  if (!is_given(reader) || !reader.any_object()) return;
  rotary.theta = number_or(reader, "rope_theta", rotary.theta, kLeastTheta);
  const JsonReader type = reader.has("rope_type") ? reader["rope_type"] : reader.optional("type");
  if (is_given(type)) rotary.scaling = scaling_named(type.string());
  if (number_or(reader, "partial_rotary_factor", 1.0, 0.0) != 1.0)
    rotary.scaling = RotaryScaling::other;
  if (rotary.scaling != RotaryScaling::llama3) return;
  rotary.factor = reader["factor"].number(kLeastFactor);
  rotary.low_frequency_factor = reader["low_freq_factor"].number(kLeastFactor);
  rotary.high_frequency_factor = reader["high_freq_factor"].number(kLeastFactor);
  rotary.original_positions =
      reader["original_max_position_embeddings"].integer<std::int32_t>(1, kLongestSequence);
}

RotaryPositions read_rotary_positions(const JsonReader& root) {
  RotaryPositions rotary{.theta = number_or(root, "rope_theta", kUsualTheta, kLeastTheta)};
  read_scaling(root.optional("rope_scaling"), rotary);
  read_scaling(root.optional("rope_parameters"), rotary);
  if (number_or(root, "partial_rotary_factor", 1.0, 0.0) != 1.0)
    rotary.scaling = RotaryScaling::other;
  return rotary;
}

std::int32_t read_window(const JsonReader& root, std::string_view family) {
  const bool is_used = family == "mistral" || flag_or(root, "use_sliding_window", false);
  if (!is_used) return 0;
  const JsonReader window = root.optional("sliding_window");
  if (window.absent()) return kUsualWindow;
  return is_given(window) ? window.integer<std::int32_t>(1, kLongestSequence) : 0;
}

}  // namespace

void read_details(const JsonReader& root, std::string_view family, ModelSpec& model) {
  LayerDetails& details = model.shape.details;
  details.activation = read_activation(root, family);
  details.initial_deviation = number_or(root, "initializer_range", details.initial_deviation, 0.0);
  if (family == "gpt2") details.norm_epsilon = number_or(root, "layer_norm_epsilon", 1e-5, 0.0);
  if (!is_one_of(kLikeLlama, family)) return;
  details.norm_epsilon = number_or(root, "rms_norm_eps", 1e-6, 0.0);
  details.sliding_window = read_window(root, family);
  details.rotary = read_rotary_positions(root);
}

}  // namespace tandem
