#include <algorithm>

#include "core/files/model_file.h"
#include "core/import/hugging_face.h"

namespace tandem {
namespace {

// Doubles, which are exact for every model that there can be and do not overflow for others.
double number(const JsonReader& root, std::string_view key, std::int32_t otherwise,
              std::int32_t most = kWidest) {
  return count_or(root, key, otherwise, most);
}

double gated_mlp(double width, double inner) { return 3 * width * inner; }

/// Tables, and the norm in front of the head.
double ends(const JsonReader& root, double width, std::int32_t vocabulary) {
  const double table = number(root, "vocab_size", vocabulary, kLargestVocabulary) * width;
  return (flag_or(root, "tie_word_embeddings", false) ? 1 : 2) * table + width;
}

ParameterCount llama4(const JsonReader& root) {
  const double width = number(root, "hidden_size", 5120),
               blocks = number(root, "num_hidden_layers", 48, kMostBlocks);
  const double heads = number(root, "num_attention_heads", 40),
               keys = number(root, "num_key_value_heads", 8), head = number(root, "head_dim", 128);
  const double attention =
      2 * width * head * (heads + keys) +
      (flag_or(root, "attention_bias", false) ? head * (heads + 2 * keys) + width : 0);
  const JsonReader listed = root.optional("moe_layers");
  const std::int32_t step = count_or(root, "interleave_moe_layer_step", 1, kMostBlocks);
  const double sparse = std::min(
      blocks, is_given(listed) ? static_cast<double>(listed.array().size())
                               : static_cast<double>(static_cast<std::int32_t>(blocks) / step));
  const double experts = number(root, "num_local_experts", 16),
               taken = number(root, "num_experts_per_tok", 1);
  const double expert = gated_mlp(width, number(root, "intermediate_size", 8192));
  const double always =
      ends(root, width, 202048) + blocks * (attention + 2 * width) +
      (blocks - sparse) * gated_mlp(width, number(root, "intermediate_size_mlp", 16384)) +
      sparse * (expert + experts * width);
  return {always + sparse * expert * experts, always + sparse * expert * std::min(taken, experts)};
}

ParameterCount t5(const JsonReader& root) {
  const double width = number(root, "d_model", 512), heads = number(root, "num_heads", 8);
  const std::int32_t encoders = count_or(root, "num_layers", 6, kMostBlocks);
  const double decoders = number(root, "num_decoder_layers", encoders, kMostBlocks);
  const JsonReader kind = root.optional("feed_forward_proj");
  const double matrices = is_given(kind) && kind.string().starts_with("gated-") ? 3 : 2;
  const double attention = 4 * width * heads * number(root, "d_kv", 64) + width,
               mlp = matrices * width * number(root, "d_ff", 2048) + width;
  const double table = number(root, "vocab_size", 32128, kLargestVocabulary) * width;
  // Each half has a table of relative positions in its first layer, and a norm at its end.
  const double half = number(root, "relative_attention_num_buckets", 32) * heads + width;
  const double all = (flag_or(root, "tie_word_embeddings", true) ? 1 : 2) * table + 2 * half +
                     encoders * (attention + mlp) + decoders * (2 * attention + mlp);
  return {all, all};
}

}  // namespace

std::optional<ParameterCount> counted_parameters(const JsonReader& root, std::string_view type) {
  if (type == "llama4") return llama4(root);
  if (type == "t5") return t5(root);
  return std::nullopt;
}

}  // namespace tandem
