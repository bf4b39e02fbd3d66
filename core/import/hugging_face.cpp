#include "core/import/hugging_face.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/files/model_file.h"
#include "core/import/hugging_face_details.h"

namespace tandem {
namespace {

struct Keys {
  std::string_view blocks = "num_hidden_layers", width = "hidden_size",
                   heads = "num_attention_heads", mlp_width = "intermediate_size",
                   sequence = "max_position_embeddings";
};

/// A family by the defaults of its configuration class (transformers, configuration_*.py).
struct Family {
  std::string_view type, classes;  // model_type; what the names of its classes begin with
  std::int32_t vocabulary, blocks, width, heads, key_value_heads;  // the last 0: all heads
  std::int32_t head_width, mlp_width;                              // 0: width / heads, 4 · width
  std::int32_t sequence;
  bool tied;
  TransformerShape shape;
  Keys keys = {};
};

constexpr Keys kGpt2Keys{"n_layer", "n_embd", "n_head", "n_inner", "n_positions"};
constexpr Keys kKeysOfExperts{.mlp_width = "moe_intermediate_size"};

constexpr TransformerShape kBert{.segments = 2, .causal = false, .norm_first = false};

constexpr TransformerShape kLlama{.rms_norm = true,
                                  .query_bias = false,
                                  .attention_bias = false,
                                  .mlp_bias = false,
                                  .gated = true,
                                  .dropout = false};

constexpr TransformerShape with(TransformerShape shape, bool TransformerShape::* flag) {
  shape.*flag = true;
  return shape;
}

constexpr TransformerShape of_experts(TransformerShape shape, std::int32_t all,
                                      std::int32_t per_token) {
  shape.experts = all;
  shape.experts_per_token = per_token;
  return shape;
}

constexpr TransformerShape kMixtral = of_experts(kLlama, 8, 2);
constexpr TransformerShape kQwen2 = with(kLlama, &TransformerShape::query_bias);
constexpr TransformerShape kQwen3 = with(kLlama, &TransformerShape::head_norm);
constexpr TransformerShape kQwenOfExperts = of_experts(kQwen3, 128, 8);
/// DeepSeek's: arXiv 2405.04434, 2412.19437.
constexpr TransformerShape of_latents(TransformerShape shape, std::int32_t shared,
                                      std::int32_t dense_blocks, std::int32_t dense_mlp_width) {
  shape.shared_experts = shared;
  shape.dense_blocks = dense_blocks;
  shape.dense_mlp_width = dense_mlp_width;
  shape.latent = {
      .key_value_rank = 512, .query_rank = 1536, .rotary_width = 64, .value_width = 128};
  return shape;
}

constexpr TransformerShape kDeepSeek2 = of_latents(of_experts(kLlama, 64, 6), 2, 0, 0);
constexpr TransformerShape kDeepSeek3 =
    with(of_latents(of_experts(kLlama, 256, 8), 1, 3, 18432), &TransformerShape::expert_bias);
constexpr TransformerShape kKimi2 =
    with(of_latents(of_experts(kLlama, 384, 8), 1, 1, 18432), &TransformerShape::expert_bias);
constexpr TransformerShape kGemma2 = with(kLlama, &TransformerShape::output_norm);
constexpr TransformerShape kGemma3 = with(kGemma2, &TransformerShape::head_norm);

constexpr std::array<Family, 19> kFamilies{
    {{"gpt2", "GPT2", 50257, 12, 768, 12, 0, 0, 0, 1024, true, {}, kGpt2Keys},
     {"bert", "Bert", 30522, 12, 768, 12, 0, 0, 3072, 512, true, kBert},
     {"opt", "OPT", 50272, 12, 768, 12, 0, 0, 3072, 2048, true, {}, {.mlp_width = "ffn_dim"}},
     {"gpt_neox", "GPTNeoX", 50432, 44, 6144, 64, 0, 0, 24576, 2048, false, {.dropout = false}},
     {"llama", "Llama", 32000, 32, 4096, 32, 0, 0, 11008, 2048, false, kLlama},
     {"mistral", "Mistral", 32000, 32, 4096, 32, 8, 0, 14336, 131072, false, kLlama},
     {"qwen2", "Qwen2", 151936, 32, 4096, 32, 32, 0, 22016, 32768, false, kQwen2},
     {"qwen3", "Qwen3", 151936, 32, 4096, 32, 32, 128, 22016, 32768, false, kQwen3},
     {"gemma", "Gemma", 256000, 28, 3072, 16, 16, 256, 24576, 8192, true, kLlama},
     {"gemma2", "Gemma2", 256000, 26, 2304, 8, 4, 256, 9216, 8192, true, kGemma2},
     {"gemma3", "Gemma3", 262208, 26, 2304, 8, 4, 256, 9216, 131072, true, kGemma3},
     {"qwen2_vl", "Qwen2VL", 152064, 80, 8192, 64, 8, 0, 29568, 32768, false, kQwen2},
     {"qwen2_5_vl", "Qwen2_5_VL", 152064, 80, 8192, 64, 8, 0, 29568, 32768, false, kQwen2},
     {"qwen3_vl", "Qwen3VL", 151936, 32, 4096, 32, 32, 128, 22016, 128000, false, kQwen3},
     {"mixtral", "Mixtral", 32000, 32, 4096, 32, 8, 0, 14336, 131072, false, kMixtral},
     {"qwen3_moe", "Qwen3Moe", 151936, 24, 2048, 32, 4, 0, 768, 32768, false, kQwenOfExperts,
      kKeysOfExperts},
     {"deepseek_v2", "DeepseekV2", 32000, 32, 4096, 32, 0, 0, 1407, 2048, false, kDeepSeek2,
      kKeysOfExperts},
     {"deepseek_v3", "DeepseekV3", 129280, 61, 7168, 128, 0, 0, 2048, 4096, false, kDeepSeek3,
      kKeysOfExperts},
     {"kimi_k2", "KimiK2", 163840, 61, 7168, 64, 0, 0, 2048, 4096, false, kKimi2, kKeysOfExperts}}};

struct Refusal {
  std::string_view type, reason;
};

constexpr std::string_view kExperts = "layers of experts beside others";
constexpr std::string_view kEncoder = "an encoder and a decoder";
constexpr std::array<Refusal, 7> kRefusals{
    {{"qwen2_moe", kExperts},
     {"gpt_oss", "sinks of attention, and experts with biases"},
     {"llama4", kExperts},
     {"t5", kEncoder},
     {"bart", kEncoder},
     {"mllama", "layers that attend to pictures"},
     {"mamba", "state-space layers"}}};

/// What a family that is not known must say to be read as Llama.
constexpr std::array<std::string_view, 5> kLlamaKeys{
    "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"};

/// "LlamaForCausalLM"; empty: the file names none.
std::string class_of(const JsonReader& root) {
  const JsonReader classes = root.optional("architectures");
  if (classes.absent() || classes.kind() == JsonKind::null) return {};
  const std::vector<JsonReader> all = classes.array();
  return all.empty() ? std::string() : all.front().string();
}

bool is_class_of(std::string_view name, const Family& family) {
  if (!name.starts_with(family.classes)) return false;
  name.remove_prefix(family.classes.size());
  return name.starts_with("For") || name.starts_with("Model") || name.starts_with("LMHead") ||
         name.starts_with("DoubleHeads");
}

/// Null: none is of this type.
template <class Rows>
const auto* row_of(const Rows& rows, std::string_view type) {
  const auto found = std::ranges::find(rows, type, &Rows::value_type::type);
  return found == rows.end() ? nullptr : &*found;
}

/// Of the text of a model, whose part in a file of several is named such as "gemma3_text".
std::string type_of(const JsonReader& root) {
  const JsonReader type = root.optional("model_type");
  if (!is_given(type)) return {};
  std::string name = type.string();
  const std::string_view text = "_text";
  if (name.ends_with(text)) name.erase(name.size() - text.size());
  return name;
}

/// What a file says of the language model in it: all, unless that is a part of its own.
struct Source {
  JsonReader whole, text;
  JsonReader named;  // whichever of them has the type
  std::string type;  // empty: not given
};

Source source_of(const JsonReader& root) {
  Source source{root, root, root, type_of(root)};
  const JsonReader part = root.optional("text_config");
  if (!is_given(part)) return source;
  part.any_object();
  source.text = part;
  const std::string type = type_of(part);
  const auto is_known = [](std::string_view one) {
    return row_of(kFamilies, one) != nullptr || row_of(kRefusals, one) != nullptr;
  };
  if (type.empty() || (is_known(source.type) && !is_known(type))) return source;
  source.named = part;
  source.type = type;
  return source;
}

void diagnose_refused(const Source& source, const Refusal& refusal) {
  const std::size_t before = source.whole.diagnostics();
  const auto count = counted_parameters(source.text, source.type);
  if (source.whole.diagnostics() > before) return;
  std::string counted;
  if (count && count->all < 0x1p53) {
    counted = fmt::format(": {:.0f} parameters", count->all);
    if (count->active < count->all)
      counted += fmt::format(", {:.0f} of them active for a token", count->active);
  }
  source.named["model_type"].diagnose(
      fmt::format("model type \"{}\" has {}: there are no analytic costs of that{}", source.type,
                  refusal.reason, counted));
}

/// Null where the file has not what Llama's has, or experts.
const Family* llama_like(const JsonReader& text) {
  const bool has_keys =
      std::ranges::all_of(kLlamaKeys, [&](std::string_view key) { return text.has(key); });
  const auto members = text.members();
  const bool has_experts = std::any_of(members.begin(), members.end(), [](const auto& member) {
    return member.first.find("expert") != std::string::npos;
  });
  return has_keys && !has_experts ? row_of(kFamilies, "llama") : nullptr;
}

/// Null where there is none, which is diagnosed.
const Family* family_of(const Source& source, const std::string& class_name,
                        std::vector<std::string>& notes) {
  if (source.type.empty()) {
    for (const Family& family : kFamilies) {
      if (is_class_of(class_name, family)) return &family;
    }
    if (!source.whole.has("architectures")) {
      source.whole.diagnose("\"model_type\" is missing: it names the family of a config.json",
                            "such as \"model_type\": \"llama\"");
      return nullptr;
    }
    source.whole["architectures"].expected(
        "a class of a family that is known, or \"model_type\" besides");
    return nullptr;
  }
  if (const Family* family = row_of(kFamilies, source.type)) return family;
  const JsonReader type = source.named["model_type"];
  if (const Refusal* refusal = row_of(kRefusals, source.type)) {
    diagnose_refused(source, *refusal);
    return nullptr;
  }
  if (const Family* llama = llama_like(source.text)) {
    notes.push_back(
        fmt::format("model type \"{}\" is not known: read as \"llama\", whose keys it has; compare "
                    "the number of parameters with the model's",
                    source.type));
    return llama;
  }
  std::vector<std::string> known;
  for (const Family& family : kFamilies) known.emplace_back(family.type);
  type.diagnose(
      fmt::format("unknown model type \"{}\"{}", source.type, did_you_mean(source.type, known)),
      fmt::format("known are {}", fmt::join(known, ", ")));
  return nullptr;
}

/// Diagnoses a flag that changes the layers and is not as the layers here are.
void only(const JsonReader& root, std::string_view key, bool usual, std::string_view what) {
  if (flag_or(root, key, usual) != usual)
    root[key].diagnose(fmt::format("{} has no analytic costs", what));
}

void read_bert(const JsonReader& root, const std::string& class_name, ModelSpec& model) {
  TransformerShape& shape = model.shape;
  shape.segments = count_or(root, "type_vocab_size", shape.segments, kLongestSequence);
  shape.masked_head = class_name == "BertForMaskedLM" || class_name == "BertLMHeadModel" ||
                      class_name == "BertForPreTraining";
  shape.sentence_head = class_name == "BertForPreTraining";
  shape.pooler = shape.sentence_head || !shape.masked_head;
  only(root, "is_decoder", false, "a decoder of BERT's layers");
}

/// Diagnoses scores of attention that GPT-2's are not.
void read_gpt2(const JsonReader& root) {
  only(root, "add_cross_attention", false, "attention to an encoder");
  constexpr std::string_view kDepth = "scale_attn_by_inverse_layer_idx",
                             kRoot = "scale_attn_weights";
  if (flag_or(root, kDepth, false))
    root[kDepth].diagnose("scores of attention divided by the number of their block: not computed");
  if (!flag_or(root, kRoot, true))
    root[kRoot].diagnose(
        "scores of attention not divided by the root of a head's width: not computed");
}

void read_opt(const JsonReader& root, ModelSpec& model) {
  model.shape.positions += 2;  // the table begins with two rows for padding
  only(root, "do_layer_norm_before", true, "a norm behind each layer of OPT");
  const JsonReader narrow = root.optional("word_embed_proj_dim");
  if (is_given(narrow) && narrow.integer<std::int32_t>(1, kWidest) != model.width)
    narrow.diagnose("an embedding of another width than the layers has no analytic costs");
}

/// Diagnoses experts in every few layers alone.
void each_layer(const JsonReader& root, std::string_view step) {
  if (count_or(root, step, 1, kMostBlocks) != 1)
    root[step].diagnose("layers of experts beside others have no analytic costs");
}

void read_experts(const JsonReader& root, TransformerShape& shape) {
  std::string_view key = root.has("num_experts") ? "num_experts" : "num_local_experts";
  if (shape.is_latent()) key = "n_routed_experts";
  shape.experts = count_or(root, key, shape.experts, kMostExperts);
  shape.experts_per_token =
      count_or(root, "num_experts_per_tok", shape.experts_per_token, kMostExperts);
  each_layer(root, "decoder_sparse_step");
  each_layer(root, "moe_layer_freq");
  const JsonReader dense = root.optional("mlp_only_layers");
  if (is_given(dense) && !dense.array().empty())
    dense.diagnose("layers of experts beside others have no analytic costs");
}

/// The same where 0 is a number.
std::int32_t count_or_none(const JsonReader& root, std::string_view key, std::int32_t otherwise,
                           std::int32_t most) {
  const JsonReader value = root.optional(key);
  return is_given(value) ? value.integer<std::int32_t>(0, most) : otherwise;
}

/// What DeepSeek's layers have besides experts.
void read_latent_attention(const JsonReader& root, ModelSpec& model) {
  TransformerShape& shape = model.shape;
  LatentAttention& latent = shape.latent;
  shape.shared_experts =
      count_or_none(root, "n_shared_experts", shape.shared_experts, kMostExperts);
  shape.dense_blocks =
      count_or_none(root, "first_k_dense_replace", shape.dense_blocks, kMostBlocks);
  const std::int32_t dense = shape.dense_mlp_width > 0 ? shape.dense_mlp_width : 11008;
  shape.dense_mlp_width =
      shape.dense_blocks > 0 ? count_or(root, "intermediate_size", dense, kWidest) : 0;
  const JsonReader rank = root.optional("q_lora_rank");
  const bool of_stream = !rank.absent() && rank.kind() == JsonKind::null;
  latent.query_rank = of_stream ? 0 : count_or(root, "q_lora_rank", latent.query_rank, kWidest);
  latent.key_value_rank = count_or(root, "kv_lora_rank", latent.key_value_rank, kWidest);
  latent.rotary_width = count_or(root, "qk_rope_head_dim", latent.rotary_width, kWidest);
  latent.value_width = count_or(root, "v_head_dim", latent.value_width, kWidest);
  shape.key_value_heads = model.heads;
  shape.head_width = count_or(root, "qk_nope_head_dim", 128, kWidest) + latent.rotary_width;
}

/// What only some families have.
void read_family(const JsonReader& root, const std::string& class_name, const Family& family,
                 ModelSpec& model) {
  TransformerShape& shape = model.shape;
  if (family.type == "bert" || family.type == "opt" || family.type == "gpt2")
    shape.positions = model.sequence;
  if (family.type == "bert") read_bert(root, class_name, model);
  if (family.type == "opt") read_opt(root, model);
  if (family.type == "gpt2") read_gpt2(root);
  if (shape.experts > 0) read_experts(root, shape);
  if (shape.is_latent()) read_latent_attention(root, model);
  if (shape.gated && !shape.query_bias) {
    const bool bias = flag_or(root, "attention_bias", false);
    shape.query_bias = shape.attention_bias = bias;
  }
  if (family.type == "llama") shape.mlp_bias = flag_or(root, "mlp_bias", false);
  if (family.type == "gpt_neox")
    shape.query_bias = shape.attention_bias = flag_or(root, "attention_bias", true);
}

/// The last part of a path; the type, where none is given.
std::string name_of(const JsonReader& root, std::string_view type) {
  const JsonReader given = root.optional("_name_or_path");
  std::string name = is_given(given) ? given.line() : std::string();
  while (name.ends_with('/')) name.pop_back();
  name.erase(0, name.rfind('/') + 1);
  return name.empty() ? std::string(type) : name;
}

void read_widths(const JsonReader& root, const Family& family, ModelSpec& model) {
  TransformerShape& shape = model.shape;
  const std::int32_t wide = std::min(4 * model.width, kWidest);
  shape.mlp_width = count_or(root, family.keys.mlp_width,
                             family.mlp_width > 0 ? family.mlp_width : wide, kWidest);
  shape.key_value_heads = model.heads;
  shape.head_width = 0;
  if (shape.gated) {
    const std::int32_t all = family.key_value_heads > 0 ? family.key_value_heads : model.heads;
    shape.key_value_heads = count_or(root, "num_key_value_heads", all, kWidest);
    shape.head_width = count_or(root, "head_dim", family.head_width, kWidest);
  }
  if (shape.head_width > 0 || shape.is_latent()) return;  // of the latter, keys of their own say
  shape.head_width = std::max(1, model.width / model.heads);
  if (root.diagnostics() == 0 && model.width % model.heads != 0) {
    root.diagnose(
        fmt::format("{} heads: expected a divisor of the width {}", model.heads, model.width));
  }
}

ModelSpec read_config(const JsonReader& root, std::vector<std::string>& notes) {
  ModelSpec model;
  root.any_object();
  const std::string class_name = class_of(root);
  const std::size_t before = root.diagnostics();
  const Source source = source_of(root);
  if (root.diagnostics() > before) return model;
  const Family* family = family_of(source, class_name, notes);
  if (family == nullptr) return model;
  const JsonReader& text = source.text;
  const Keys& keys = family->keys;
  model.name = name_of(root, source.type.empty() ? family->type : source.type);
  model.architecture = Architecture::transformer;
  model.blocks = count_or(text, keys.blocks, family->blocks, kMostBlocks);
  model.width = count_or(text, keys.width, family->width, kWidest);
  model.heads = count_or(text, keys.heads, family->heads, kWidest);
  model.sequence = count_or(text, keys.sequence, family->sequence, kLongestSequence);
  model.vocabulary = count_or(text, "vocab_size", family->vocabulary, kLargestVocabulary);
  model.tied =
      flag_or(text, "tie_word_embeddings", flag_or(root, "tie_word_embeddings", family->tied));
  model.shape = family->shape;
  read_widths(text, *family, model);
  read_family(text, class_name, *family, model);
  // Of a family that is not known nobody says that it computes as Llama does.
  if (source.type.empty() || source.type == family->type) read_details(text, family->type, model);
  if (is_given(root.optional("text_config")) || is_given(root.optional("vision_config")))
    notes.emplace_back("only the language model is read: its vision and audio parts are left out");
  if (count_or_none(text, "num_nextn_predict_layers", 0, kMostBlocks) > 0)
    notes.emplace_back("layers that predict further tokens are left out");
  if (root.diagnostics() > 0) return model;
  if (const std::string fault = shape_fault(model); !fault.empty()) root.diagnose(fault);
  return root.diagnostics() == 0 ? as_plain_as_it_is(std::move(model)) : model;
}

}  // namespace

bool is_hugging_face(std::string_view text) {
  try {
    JsonFile json("", std::string(text));
    const JsonReader root = json.root();
    const bool of_another = root.has("hidden_size") || root.has("n_embd");  // it says not of whom
    return root.has("model_type") || root.has("architectures") ||
           (of_another && !root.has("version"));
  } catch (const InputError&) {  // no JSON at all
    return false;
  }
}

NotedModel parse_hugging_face(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  NotedModel read;
  read.model = read_config(json.root(), read.notes);
  json.finish();
  return read;
}

}  // namespace tandem
