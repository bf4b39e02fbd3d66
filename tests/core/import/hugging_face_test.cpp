// Configurations of Hugging Face Transformers: the models they mean, by the published numbers of
// their parameters, and what is said of those that can't be priced.

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files/model_file.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "tests/core/error_of.h"
#include "tests/support/edited_text.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::with;

ModelSpec model_of(const std::string& text) { return parse_model("config.json", text); }
std::string hugging_face_error(const std::string& text) {
  return error_of([&text] { model_of(text); });
}

const std::string kLlama = R"({
"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "hidden_act": "silu",
"_name_or_path": "meta-llama/Llama-2-7b-hf",
"hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 4096,
"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
"num_key_value_heads": 32, "rms_norm_eps": 1e-05, "rope_scaling": null,
"tie_word_embeddings": false, "torch_dtype": "float16", "vocab_size": 32000
})";

TEST(HuggingFace, ModelsHaveTheirPublishedParameters) {
  const std::string bert = R"("model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096)";
  const std::vector<std::pair<std::string, std::int64_t>> published{
      {R"({"model_type": "gpt2"})", 124'439'808},
      {R"({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_inner": null})",
       1'557'611'200},
      // The encoder with its pooler, the same with the head that fills masks instead, with both.
      {"{" + bert + "}", 335'141'888},
      {"{" + bert + R"(, "architectures": ["BertForMaskedLM"]})", 335'174'458},
      {"{" + bert + R"(, "architectures": ["BertForPreTraining"]})", 336'226'108},
      {R"({"model_type": "bert"})", 109'482'240},
      {R"({"model_type": "opt"})", 125'239'296},
      {R"({"model_type": "gpt_neox", "vocab_size": 50304, "num_hidden_layers": 16,
        "hidden_size": 2048, "num_attention_heads": 8, "intermediate_size": 8192})",
       1'011'781'632},
      {kLlama, 6'738'415'616},
      {R"({"model_type": "llama", "vocab_size": 128256, "intermediate_size": 14336,
        "num_key_value_heads": 8})",
       8'030'261'248},
      {R"({"model_type": "mistral", "num_key_value_heads": 8})", 7'241'732'096},
      {R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944})",
       7'615'616'512},
      {R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
        "tie_word_embeddings": true})",
       596'049'920},
      {R"({"model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": 16384})",
       2'506'172'416},
      {R"({"model_type": "gemma2"})", 2'614'341'888},
      {R"({"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42,
        "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 14336})",
       9'241'705'984},
      {R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152,
        "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 6912})",
       999'885'952},
      // Without the pictures' part, as the text models of the same sizes.
      {R"({"model_type": "qwen2_5_vl", "vision_config": {"hidden_size": 1280},
        "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944})",
       7'615'616'512},
      {R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text",
        "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "intermediate_size": 3072}, "tie_word_embeddings": true})",
       596'049'920},
      {R"({"model_type": "llava", "text_config": {"model_type": "llama"}})", 6'738'415'616},
      {R"({"model_type": "mixtral", "num_key_value_heads": 8})", 46'702'792'704},
      {R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "head_dim": 128})", 30'532'122'624}};
  for (const auto& [text, parameters] : published)
    EXPECT_EQ(parameter_count(model_of(text)), parameters) << text;
}

TEST(HuggingFace, AFileIsReadWithItsName) {
  const ModelSpec model = model_of(kLlama);
  EXPECT_EQ(model.name, "Llama-2-7b-hf");
  EXPECT_EQ(model.architecture, Architecture::transformer);
  EXPECT_EQ(model.sequence, 4096);
  EXPECT_FALSE(model.tied);
  EXPECT_TRUE(model.shape.rms_norm);
  EXPECT_TRUE(model.shape.gated);
  EXPECT_EQ(model.shape.head_width, 128);
  EXPECT_EQ(model.shape.positions, 0);
}

TEST(HuggingFace, GptTwoIsTheModelThatTrains) {
  const ModelSpec model = model_of(R"({"model_type": "gpt2", "n_layer": 2})");
  EXPECT_EQ(model.architecture, Architecture::gpt2);
  EXPECT_NO_THROW(check_trainable(model));
  const ModelSpec narrow = model_of(R"({"model_type": "gpt2", "n_inner": 1000})");
  EXPECT_EQ(narrow.architecture, Architecture::transformer);
  EXPECT_EQ(narrow.shape.mlp_width, 1000);
  EXPECT_NO_THROW(check_trainable(narrow));
  const ModelSpec other =
      model_of(R"({"model_type": "gpt2", "activation_function": "relu", "n_layer": 2})");
  EXPECT_EQ(error_of([&] { check_trainable(other); }),
            "model gpt2: it has another function in its MLP than GELU in its tanh form, so it "
            "can't be measured and trained here; it can be simulated on a cluster");
  const ModelSpec precise =
      model_of(R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-6, "n_layer": 2})");
  EXPECT_EQ(precise.shape.details.norm_epsilon, 1e-6);
}

TEST(HuggingFace, ScoresThatAreNotDividedAsGpt2sAreRefusedByName) {
  const std::string file = R"({"model_type": "gpt2", "n_layer": 2, )";
  EXPECT_THAT(hugging_face_error(file + R"("scale_attn_by_inverse_layer_idx": true})"),
              AllOf(HasSubstr("scale_attn_by_inverse_layer_idx"), HasSubstr("not computed")));
  EXPECT_THAT(hugging_face_error(file + R"("scale_attn_weights": false})"),
              AllOf(HasSubstr("scale_attn_weights"), HasSubstr("not computed")));
  // In what order rounding happens is no other model.
  EXPECT_NO_THROW(model_of(file + R"("scale_attn_by_inverse_layer_idx": false,
    "scale_attn_weights": true, "reorder_and_upcast_attn": true})"));
}

TEST(HuggingFace, InitializerRangeIsTheDeviationOfInitialWeights) {
  for (const char* type : {"gpt2", "llama", "qwen3"}) {
    const std::string file = fmt::format(R"({{"model_type": "{}")", type);
    EXPECT_EQ(shape_of(model_of(file + "}")).details.initial_deviation, 0.02) << type;
    const ModelSpec model = model_of(file + R"(, "initializer_range": 0.006})");
    EXPECT_EQ(model.shape.details.initial_deviation, 0.006) << type;
    EXPECT_EQ(parse_model("model.json", model_text(model)), model);
  }
  EXPECT_THAT(hugging_face_error(R"({"model_type": "gpt2", "initializer_range": -1})"),
              HasSubstr("initializer_range"));
}

TEST(HuggingFace, LlamasDetailsAreRead) {
  const LayerDetails llama = model_of(kLlama).shape.details;
  EXPECT_EQ(llama.norm_epsilon, 1e-5);
  EXPECT_EQ(llama.activation, Activation::silu);
  EXPECT_EQ(llama.rotary, (RotaryPositions{.theta = 10'000.0}));
  const RotaryPositions scaled{.theta = 500'000.0,
                               .scaling = RotaryScaling::llama3,
                               .factor = 8.0,
                               .low_frequency_factor = 1.0,
                               .high_frequency_factor = 4.0,
                               .original_positions = 4096};
  const std::string numbers = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 4096, "rope_type": "llama3")";
  const ModelSpec before = model_of(R"({"model_type": "llama", "rope_theta": 500000.0,
    "rope_scaling": {)" + numbers + "}}");
  EXPECT_EQ(before.shape.details.rotary, scaled);
  EXPECT_EQ(before.shape.details.norm_epsilon, 1e-6);
  // As version 5 of the library writes it.
  const ModelSpec now = model_of(R"({"model_type": "llama", "rope_parameters": {
    "rope_theta": 500000.0, )" + numbers +
                                 "}}");
  EXPECT_EQ(now.shape.details.rotary, scaled);
  EXPECT_EQ(parse_model("model.json", model_text(now)), now);
  EXPECT_THAT(
      hugging_face_error(R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3"}})"),
      AllOf(HasSubstr("missing key \"factor\""),
            HasSubstr("missing key \"original_max_position_embeddings\"")));
}

TEST(HuggingFace, WhatIsNotTrainedSaysWhy) {
  const auto why = [](const std::string& text) { return why_untrainable(model_of(text)); };
  EXPECT_EQ(why(kLlama), "");
  EXPECT_EQ(why(R"({"model_type": "qwen2"})"), "");
  EXPECT_EQ(why(R"({"model_type": "qwen3", "use_sliding_window": false})"), "");
  EXPECT_EQ(why(R"({"model_type": "mistral", "sliding_window": null})"), "");
  EXPECT_EQ(why(R"({"model_type": "mistral"})"),
            "attends to a sliding window of 4096 of its 131072 tokens");
  EXPECT_EQ(why(R"({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2}})"),
            "stretches its rotary positions by another rule than Llama 3's");
  EXPECT_EQ(why(R"({"model_type": "llama", "hidden_act": "gelu"})"),
            "gates its MLP by another function than SiLU");
  EXPECT_EQ(why(R"({"model_type": "llama", "head_dim": 7})"),
            "has rotary positions and heads of 7 channels: expected an even number, 512 at most");
  EXPECT_EQ(why(R"({"model_type": "mixtral"})"), "has experts");
  EXPECT_EQ(why(R"({"model_type": "gemma"})"), "gates its MLP by another function than SiLU");
  EXPECT_EQ(why(R"({"model_type": "gemma2"})"), "has norms of what attention and MLP make");
  EXPECT_EQ(why(R"({"model_type": "bert"})"), "attends to later tokens");
  EXPECT_EQ(why(R"({"model_type": "opt"})"),
            "has another function in its MLP than GELU in its tanh form");
  ModelSpec written = model_of(kLlama);
  written.shape.details.rotary = {};
  EXPECT_THAT(why_untrainable(written), HasSubstr("nothing says their base"));
}

TEST(HuggingFace, BiasesAreCounted) {
  const std::int64_t none = parameter_count(model_of(kLlama)), d = 4096;
  const auto more = [&](const std::string& key) {
    return parameter_count(model_of(with(kLlama, "{", "{\"" + key + "\": true,"))) - none;
  };
  EXPECT_EQ(more("attention_bias"), 32 * 4 * d);
  EXPECT_EQ(more("mlp_bias"), 32 * (2 * 11008 + d));
  EXPECT_EQ(more("tie_embeddings_of_another_library"), 0);
}

TEST(HuggingFace, TheClassStandsInForTheModelType) {
  const ModelSpec model = model_of(with(kLlama, "\"model_type\": \"llama\",", ""));
  EXPECT_EQ(parameter_count(model), 6'738'415'616);
  EXPECT_EQ(hugging_face_error(R"({"architectures": ["LlamasForCausalLM"]})"),
            "config.json:1:19: error: /architectures: expected a class of a family that is known, "
            "or \"model_type\" besides, found [\"LlamasForCausalLM\"]\n"
            "{\"architectures\": [\"LlamasForCausalLM\"]}\n"
            "                  ^~~~~~~~~~~~~~~~~~~~~");
}

TEST(HuggingFace, WhatCannotBePricedIsRefusedWithTheReason) {
  EXPECT_EQ(hugging_face_error(R"({"model_type": "qwen2_moe"})"),
            "config.json:1:16: error: /model_type: model type \"qwen2_moe\" has layers of experts "
            "beside others: there are no analytic costs of that\n"
            "{\"model_type\": \"qwen2_moe\"}\n"
            "               ^~~~~~~~~~~");
  EXPECT_THAT(hugging_face_error(R"({"model_type": "qwen3_moe", "mlp_only_layers": [0]})"),
              HasSubstr("/mlp_only_layers: layers of experts beside others"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "qwen3_moe", "decoder_sparse_step": 2})"),
              HasSubstr("/decoder_sparse_step: layers of experts beside others"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "mixtral", "num_experts_per_tok": 9})"),
              HasSubstr("a token can't take 9 of 8 experts"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "mixtral", "num_local_experts": 65536})"),
              HasSubstr("65536 experts of 14336 channels: expected at most 16777216 in all"));
  EXPECT_EQ(hugging_face_error(R"({"model_type": "lama"})"),
            "config.json:1:16: error: /model_type: unknown model type \"lama\"; did you mean "
            "\"llama\"?\n"
            "{\"model_type\": \"lama\"}\n"
            "               ^~~~~~ known are gpt2, bert, opt, gpt_neox, llama, mistral, qwen2, "
            "qwen3, gemma, gemma2, gemma3, qwen2_vl, qwen2_5_vl, qwen3_vl, mixtral, qwen3_moe, "
            "deepseek_v2, deepseek_v3, kimi_k2");
  EXPECT_THAT(hugging_face_error(R"({"model_type": 3})"), HasSubstr("expected a string, found 3"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "bert", "is_decoder": true})"),
              HasSubstr("/is_decoder: a decoder of BERT's layers has no analytic costs"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "opt", "do_layer_norm_before": false})"),
              HasSubstr("/do_layer_norm_before: a norm behind each layer of OPT"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "opt", "word_embed_proj_dim": 512})"),
              HasSubstr("/word_embed_proj_dim: an embedding of another width"));
}

TEST(HuggingFace, AFileWithoutAModelTypeIsToldSoOnce) {
  const std::string error = hugging_face_error(R"({"hidden_size": 64, "num_hidden_layers": 2})");
  EXPECT_THAT(error, ::testing::StartsWith(
                         "config.json:1:1: error: \"model_type\" is missing: it names the family "
                         "of a config.json"));
  EXPECT_EQ(error.find("error: ", error.find("error: ") + 1), std::string::npos) << error;
  EXPECT_THAT(hugging_face_error(R"({"version": 1, "hidden_size": 64})"),
              ::testing::HasSubstr("blocks"));
}

TEST(HuggingFace, LearnedPositionsAreEnoughForTheSequence) {
  ModelSpec model = model_of(R"({"model_type": "opt"})");
  model.sequence = model.shape.positions;
  EXPECT_EQ(shape_fault(model), "");
  ++model.sequence;
  EXPECT_THAT(shape_fault(model), AllOf(HasSubstr("2051 tokens"), HasSubstr("2050 learned")));
}

TEST(HuggingFace, WhatIsRefusedIsCountedAllTheSame) {
  const auto has = [](const std::string& text, const std::string& count) {
    EXPECT_THAT(hugging_face_error(text),
                HasSubstr("there are no analytic costs of that: " + count + "\n"))
        << text;
  };
  has(R"({"model_type": "t5"})", "60506624 parameters");
  has(R"({"model_type": "t5", "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12})",
      "222903552 parameters");
  has(R"({"model_type": "t5", "d_model": 768, "d_ff": 2048, "num_layers": 12, "num_heads": 12,
    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})",
      "247577856 parameters");
  EXPECT_THAT(hugging_face_error(R"({"model_type": "t5", "d_ff": 0})"),
              HasSubstr("/d_ff: expected an integer from 1 to 1048576, found 0"));
}

// By the shapes: Scout is known as 109 G and Maverick as 400 G with what sees, both with 17 G
// active.
TEST(HuggingFace, LlamaFourIsCountedWithItsDenseLayersAndSharedExperts) {
  EXPECT_THAT(hugging_face_error(
                  R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text"}})"),
              HasSubstr("107769861120 parameters, 17172894720 of them active"));
  const std::string maverick =
      R"({"model_type": "llama4_text", "num_local_experts": 128, "interleave_moe_layer_step": 2)";
  EXPECT_THAT(hugging_face_error(maverick + "}"),
              HasSubstr("400711848960 parameters, 17184691200 of them active"));
  EXPECT_THAT(hugging_face_error(maverick + R"(, "moe_layers": [1]})"),
              HasSubstr("33149916160 parameters, 17169617920 of them active"));
}

TEST(HuggingFace, ExpertsThatATokenDoesNotTakeAreNotActive) {
  EXPECT_EQ(active_parameter_count(model_of(R"({"model_type": "mixtral"})")), 12'879'925'248);
  EXPECT_EQ(active_parameter_count(model_of(kLlama)), 6'738'415'616);
}

const std::string kDeepSeekLite = R"({
"model_type": "deepseek_v2", "vocab_size": 102400, "hidden_size": 2048, "num_hidden_layers": 27,
"num_attention_heads": 16, "q_lora_rank": null, "intermediate_size": 10944,
"moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
"num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1
})";

// By the shapes; the papers say 671 G and 37 G, 15.7 G and 2.4 G (without tables), 1 T and 32 G.
TEST(HuggingFace, LatentAttentionAndExpertsBesideDenseBlocksAreCounted) {
  const auto counts = [](const std::string& text) {
    const ModelSpec model = model_of(text);
    return std::pair(parameter_count(model), active_parameter_count(model));
  };
  EXPECT_EQ(counts(R"({"model_type": "deepseek_v3"})"),
            std::pair(std::int64_t{671'026'419'200}, std::int64_t{37'552'297'472}));
  EXPECT_EQ(counts(kDeepSeekLite),
            std::pair(std::int64_t{15'706'484'224}, std::int64_t{2'661'150'208}));
  EXPECT_EQ(counts(R"({"model_type": "kimi_k2"})"),
            std::pair(std::int64_t{1'026'408'232'448}, std::int64_t{32'861'500'928}));
  const ModelSpec lite = model_of(kDeepSeekLite);
  EXPECT_EQ(layers_of(lite)[2], LayerKind::dense_mlp);
  EXPECT_EQ(layers_of(lite)[4], LayerKind::mlp);
  EXPECT_EQ(lite.shape.latent.query_rank, 0);
  EXPECT_EQ(parse_model("model.json", model_text(lite)), lite);
  EXPECT_EQ(why_untrainable(lite), "has experts");
}

TEST(HuggingFace, WhatDeepSeeksLayersCannotBeIsRefused) {
  const auto error = [](std::string_view before, std::string_view after) {
    return hugging_face_error(with(kDeepSeekLite, before, after));
  };
  EXPECT_THAT(error("\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2"),
              HasSubstr("/moe_layer_freq: layers of experts beside others"));
  EXPECT_THAT(error("\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 27"),
              HasSubstr("27 dense blocks of 27: expected fewer, or no experts"));
  EXPECT_THAT(error("\"moe_layer_freq\": 1", "\"attention_bias\": true"),
              HasSubstr("latent attention has rotary positions, no biases, and no norms of heads"));
  EXPECT_THAT(error("\"q_lora_rank\": null", "\"kv_lora_rank\": 0"),
              HasSubstr("/kv_lora_rank: expected an integer from 1"));
}

std::vector<std::string> notes_of(const std::string& text) {
  return parse_noted_model("config.json", text).notes;
}

TEST(HuggingFace, WhatIsLeftOutOrGuessedIsNoted) {
  using ::testing::ElementsAre;
  EXPECT_THAT(notes_of(kLlama), ElementsAre());
  EXPECT_THAT(notes_of(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1})"),
              ElementsAre("layers that predict further tokens are left out"));
  EXPECT_THAT(
      notes_of(R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560}})"),
      ElementsAre("only the language model is read: its vision and audio parts are left out"));
  const std::string other = with(kLlama, "\"llama\"", "\"cohere\"");
  EXPECT_THAT(notes_of(other),
              ElementsAre("model type \"cohere\" is not known: read as \"llama\", whose keys it "
                          "has; compare the number of parameters with the model's"));
  EXPECT_EQ(parameter_count(model_of(other)), 6'738'415'616);
  EXPECT_THAT(hugging_face_error(with(other, "{", "{\"n_routed_experts\": 8,")),
              HasSubstr("unknown model type \"cohere\""));
  EXPECT_THAT(hugging_face_error(with(other, "\"vocab_size\"", "\"vocabulary\"")),
              HasSubstr("unknown model type \"cohere\""));
}

TEST(HuggingFace, ThePartOfATextSaysItsType) {
  // The table and the rest, of which 3209 M are published.
  const ModelSpec model = model_of(R"({"model_type": "gemma3", "text_config": {"model_type":
    "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "intermediate_size": 10240}})");
  EXPECT_EQ(model.name, "gemma3");
  EXPECT_EQ(parameter_count(model), 671'252'480 + 3'209'010'688);
  EXPECT_TRUE(model.shape.output_norm);
  EXPECT_THAT(hugging_face_error(
                  R"({"model_type": "mllama", "text_config": {"model_type": "mllama_text_model",
    "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1,
    "num_hidden_layers": 1}})"),
              HasSubstr("has layers that attend to pictures"));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "x", "text_config": {"model_type": "t5"}})"),
              HasSubstr("/text_config/model_type: model type \"t5\""));
  EXPECT_THAT(hugging_face_error(R"({"model_type": "gemma3", "text_config": 3})"),
              HasSubstr("/text_config: expected"));
}

TEST(HuggingFace, NumbersAreChecked) {
  EXPECT_EQ(
      hugging_face_error(with(kLlama, "\"num_attention_heads\": 32", "\"num_attention_heads\": 0")),
      "config.json:5:47: error: /num_attention_heads: expected an integer from 1 to 1048576, "
      "found 0\n"
      "\"model_type\": \"llama\", \"num_attention_heads\": 0, \"num_hidden_layers\": 32,\n"
      "                                              ^");
  EXPECT_THAT(hugging_face_error(with(kLlama, "11008", "1e99")),
              HasSubstr("/intermediate_size: expected"));
  EXPECT_THAT(
      hugging_face_error(with(kLlama, "\"num_key_value_heads\": 32", "\"num_key_value_heads\": 5")),
      HasSubstr("32 heads can't share 5 heads of keys and values evenly"));
  EXPECT_THAT(hugging_face_error(with(kLlama, "\"hidden_size\": 4096", "\"hidden_size\": 4095")),
              HasSubstr("32 heads: expected a divisor of the width 4095"));
  EXPECT_THAT(hugging_face_error(
                  with(kLlama, "\"rope_scaling\"", "\"head_dim\": 1048576, \"rope_scaling\"")),
              HasSubstr("32 heads of 1048576 channels: expected at most 1048576 in all"));
  EXPECT_THAT(hugging_face_error(with(kLlama, "\"bos_token_id\": 1", "\"hidden_size\": 1")),
              HasSubstr("duplicate key \"hidden_size\""));
  EXPECT_THAT(hugging_face_error(kLlama.substr(0, kLlama.size() / 2)),
              ::testing::StartsWith("config.json:"));
}

TEST(HuggingFace, AModelIsWrittenAsOurs) {
  const ModelSpec model = model_of(kLlama);
  EXPECT_EQ(parse_model("model.json", model_text(model)), model);
  EXPECT_THAT(model_text(model), HasSubstr("\"architecture\": \"transformer\""));
  const ModelSpec mixtral = model_of(R"({"model_type": "mixtral"})");
  EXPECT_EQ(parse_model("model.json", model_text(mixtral)), mixtral);
}

TEST(HuggingFace, PlansAreOfModelsThatTrain) {
  const auto error = [](const ModelSpec& model) {
    const std::string plan = R"({"version": 1, "model": )" + model_text(model) + "}";
    return error_of([&] { parse_plan("plan.json", plan); });
  };
  EXPECT_THAT(error(model_of(R"({"model_type": "mixtral"})")),
              HasSubstr("/model/architecture: this transformer has experts: it is priced on a "
                        "cluster, not measured or trained"));
  EXPECT_EQ(error(model_of(kLlama)).find("/model/architecture"), std::string::npos);
}

TEST(ModelFile, AShapeBelongsToATransformer) {
  const std::string shape =
      R"("shape": {"key_value_heads": 2, "head_width": 8, "mlp_width": 40, "causal": false})";
  const std::string rest =
      R"("version": 1, "blocks": 2, "width": 24, "heads": 4, "sequence": 8, )" + shape + "}";
  const ModelSpec model = model_of(R"({"architecture": "transformer", )" + rest);
  EXPECT_EQ(
      model.shape,
      (TransformerShape{.key_value_heads = 2, .head_width = 8, .mlp_width = 40, .causal = false}));
  EXPECT_THAT(hugging_face_error("{" + rest),
              HasSubstr("/shape: only \"architecture\": \"transformer\" has a shape"));
  EXPECT_THAT(
      hugging_face_error(R"({"version": 1, "architecture": "transformer", "blocks": 2, "width": 24,
    "heads": 4, "sequence": 8})"),
      HasSubstr("missing key \"shape\""));
}

}  // namespace
}  // namespace tandem
