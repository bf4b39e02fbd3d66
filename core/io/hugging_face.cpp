#include "core/io/hugging_face.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/io/model_file.h"

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

constexpr TransformerShape kLlama{.rms_norm = true,
                                  .query_bias = false,
                                  .attention_bias = false,
                                  .mlp_bias = false,
                                  .gated = true,
                                  .dropout = false};

constexpr TransformerShape llama_with(bool TransformerShape::* flag) {
  TransformerShape shape = kLlama;
  shape.*flag = true;
  return shape;
}

constexpr std::array<Family, 9> kFamilies{
    {{"gpt2",
      "GPT2",
      50257,
      12,
      768,
      12,
      0,
      0,
      0,
      1024,
      true,
      {},
      {"n_layer", "n_embd", "n_head", "n_inner", "n_positions"}},
     {"bert",
      "Bert",
      30522,
      12,
      768,
      12,
      0,
      0,
      3072,
      512,
      true,
      {.segments = 2, .causal = false, .norm_first = false}},
     {"opt", "OPT", 50272, 12, 768, 12, 0, 0, 3072, 2048, true, {}, {.mlp_width = "ffn_dim"}},
     {"gpt_neox", "GPTNeoX", 50432, 44, 6144, 64, 0, 0, 24576, 2048, false, {.dropout = false}},
     {"llama", "Llama", 32000, 32, 4096, 32, 0, 0, 11008, 2048, false, kLlama},
     {"mistral", "Mistral", 32000, 32, 4096, 32, 8, 0, 14336, 131072, false, kLlama},
     {"qwen2", "Qwen2", 151936, 32, 4096, 32, 32, 0, 22016, 32768, false,
      llama_with(&TransformerShape::query_bias)},
     {"qwen3", "Qwen3", 151936, 32, 4096, 32, 32, 128, 22016, 32768, false,
      llama_with(&TransformerShape::head_norm)},
     {"gemma", "Gemma", 256000, 28, 3072, 16, 16, 256, 24576, 8192, true, kLlama}}};

struct Refusal {
  std::string_view type, reason;
};

constexpr std::string_view kExperts = "layers of experts, of which a token takes a few";
constexpr std::string_view kEncoder = "an encoder and a decoder";
constexpr std::string_view kNorms = "norms before and behind each layer, and windows of attention";
constexpr std::array<Refusal, 13> kRefusals{{{"mixtral", kExperts},
                                             {"qwen2_moe", kExperts},
                                             {"qwen3_moe", kExperts},
                                             {"deepseek_v2", kExperts},
                                             {"deepseek_v3", kExperts},
                                             {"gpt_oss", kExperts},
                                             {"llama4", kExperts},
                                             {"t5", kEncoder},
                                             {"bart", kEncoder},
                                             {"gemma2", kNorms},
                                             {"gemma3", kNorms},
                                             {"gemma3_text", kNorms},
                                             {"mamba", "state-space layers"}}};

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

/// Null where there is none, which is complained of.
const Family* family_of(const JsonReader& root, const std::string& class_name) {
  const JsonReader type = root.optional("model_type");
  if (type.absent()) {
    for (const Family& family : kFamilies) {
      if (is_class_of(class_name, family)) return &family;
    }
    if (!root.has("architectures")) {
      root.complain("\"model_type\" is missing: it names the family of a config.json",
                    "such as \"model_type\": \"llama\"");
      return nullptr;
    }
    root["architectures"].expected("a class of a family that is known, or \"model_type\" besides");
    return nullptr;
  }
  const std::string name = type.string();
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (family.type == name) return &family;
    known.emplace_back(family.type);
  }
  if (type.kind() != JsonKind::string) return nullptr;
  for (const Refusal& refusal : kRefusals) {
    if (refusal.type != name) continue;
    type.complain(fmt::format("model type \"{}\" has {}: there are no analytic costs of that", name,
                              refusal.reason));
    return nullptr;
  }
  type.complain(fmt::format("unknown model type \"{}\"{}", name, did_you_mean(name, known)),
                fmt::format("known are {}", fmt::join(known, ", ")));
  return nullptr;
}

bool is_given(const JsonReader& value) { return !value.absent() && value.kind() != JsonKind::null; }

std::int32_t count(const JsonReader& root, std::string_view key, std::int32_t otherwise,
                   std::int32_t most) {
  const JsonReader value = root.optional(key);
  return is_given(value) ? value.integer<std::int32_t>(1, most) : otherwise;
}

bool flag(const JsonReader& root, std::string_view key, bool otherwise) {
  const JsonReader value = root.optional(key);
  return is_given(value) ? value.boolean() : otherwise;
}

/// Complains where a flag that changes the layers is not as the layers here are.
void only(const JsonReader& root, std::string_view key, bool usual, std::string_view what) {
  if (flag(root, key, usual) != usual)
    root[key].complain(fmt::format("{} has no analytic costs", what));
}

void read_bert(const JsonReader& root, const std::string& class_name, ModelSpec& model) {
  TransformerShape& shape = model.shape;
  shape.segments = count(root, "type_vocab_size", shape.segments, kLongestSequence);
  shape.masked_head = class_name == "BertForMaskedLM" || class_name == "BertLMHeadModel" ||
                      class_name == "BertForPreTraining";
  shape.sentence_head = class_name == "BertForPreTraining";
  shape.pooler = shape.sentence_head || !shape.masked_head;
  only(root, "is_decoder", false, "a decoder of BERT's layers");
}

void read_opt(const JsonReader& root, ModelSpec& model) {
  model.shape.positions += 2;  // the table begins with two rows for padding
  only(root, "do_layer_norm_before", true, "a norm behind each layer of OPT");
  const JsonReader narrow = root.optional("word_embed_proj_dim");
  if (is_given(narrow) && narrow.integer<std::int32_t>(1, kWidest) != model.width)
    narrow.complain("an embedding of another width than the layers has no analytic costs");
}

/// What only some families have.
void read_family(const JsonReader& root, const std::string& class_name, const Family& family,
                 ModelSpec& model) {
  TransformerShape& shape = model.shape;
  if (family.type == "bert" || family.type == "opt" || family.type == "gpt2")
    shape.positions = model.sequence;
  if (family.type == "bert") read_bert(root, class_name, model);
  if (family.type == "opt") read_opt(root, model);
  if (family.type == "gpt2") only(root, "add_cross_attention", false, "attention to an encoder");
  if (shape.gated && family.type != "qwen2") {
    const bool bias = flag(root, "attention_bias", false);
    shape.query_bias = shape.attention_bias = bias;
  }
  if (family.type == "llama") shape.mlp_bias = flag(root, "mlp_bias", false);
  if (family.type == "gpt_neox")
    shape.query_bias = shape.attention_bias = flag(root, "attention_bias", true);
}

/// The last part of a path; the family, where none is given.
std::string name_of(const JsonReader& root, const Family& family) {
  const JsonReader given = root.optional("_name_or_path");
  std::string name = is_given(given) ? given.string() : std::string();
  while (name.ends_with('/')) name.pop_back();
  name.erase(0, name.rfind('/') + 1);
  return name.empty() ? std::string(family.type) : name;
}

}  // namespace

bool is_hugging_face(const JsonReader& root) {
  const bool of_another = root.has("hidden_size") || root.has("n_embd");  // it says not of whom
  return root.has("model_type") || root.has("architectures") ||
         (of_another && !root.has("version"));
}

ModelSpec read_hugging_face(const JsonReader& root) {
  ModelSpec model;
  root.any_object();
  const std::string class_name = class_of(root);
  const Family* family = family_of(root, class_name);
  if (family == nullptr) return model;
  const Keys& keys = family->keys;
  model.name = name_of(root, *family);
  model.architecture = Architecture::transformer;
  model.blocks = count(root, keys.blocks, family->blocks, kMostBlocks);
  model.width = count(root, keys.width, family->width, kWidest);
  model.heads = count(root, keys.heads, family->heads, kWidest);
  model.sequence = count(root, keys.sequence, family->sequence, kLongestSequence);
  model.vocabulary = count(root, "vocab_size", family->vocabulary, kLargestVocabulary);
  model.tied = flag(root, "tie_word_embeddings", family->tied);
  model.shape = family->shape;
  TransformerShape& shape = model.shape;
  const std::int32_t wide = std::min(4 * model.width, kWidest);
  shape.mlp_width =
      count(root, keys.mlp_width, family->mlp_width > 0 ? family->mlp_width : wide, kWidest);
  if (shape.gated) {
    const std::int32_t all = family->key_value_heads > 0 ? family->key_value_heads : model.heads;
    shape.key_value_heads = count(root, "num_key_value_heads", all, kWidest);
    shape.head_width = count(root, "head_dim", family->head_width, kWidest);
  } else {
    shape.key_value_heads = model.heads;
    shape.head_width = 0;
  }
  if (shape.head_width == 0) {
    shape.head_width = std::max(1, model.width / model.heads);
    if (root.complaints() == 0 && model.width % model.heads != 0) {
      root.complain(
          fmt::format("{} heads: expected a divisor of the width {}", model.heads, model.width));
    }
  }
  read_family(root, class_name, *family, model);
  if (root.complaints() > 0) return model;
  if (const std::string fault = shape_fault(model); !fault.empty()) root.complain(fault);
  return root.complaints() == 0 ? as_plain_as_it_is(std::move(model)) : model;
}

}  // namespace tandem
