// Our tensors under the names and in the layout of Hugging Face's library.

#include "executor/checkpoint/named_parts.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/import/models.h"
#include "executor/checkpoint/library_model.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

/// Names of a model's files, with their shapes.
std::map<std::string, std::vector<std::int64_t>> shapes_of(const ModelSpec& model) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const LayerTensor& each : tensors_of(model)) {
    for (const NamedPart& part : named_parts(model, each.tensor)) {
      EXPECT_TRUE(shapes.emplace(part.name, part.shape).second) << part.name;
    }
  }
  return shapes;
}

TEST(NamedParts, OfLlamaAreTheLibrarys) {
  ModelSpec model = testing::tiny_llama();  // width 8, 4 heads and 2, 2 wide; 7 inside
  model.blocks = 1;
  const std::string block = "model.layers.0.";
  const std::map<std::string, std::vector<std::int64_t>> expected{
      {"model.embed_tokens.weight", {11, 8}},
      {block + "input_layernorm.weight", {8}},
      {block + "self_attn.q_proj.weight", {8, 8}},
      {block + "self_attn.k_proj.weight", {4, 8}},
      {block + "self_attn.v_proj.weight", {4, 8}},
      {block + "self_attn.o_proj.weight", {8, 8}},
      {block + "post_attention_layernorm.weight", {8}},
      {block + "mlp.gate_proj.weight", {7, 8}},
      {block + "mlp.up_proj.weight", {7, 8}},
      {block + "mlp.down_proj.weight", {8, 7}},
      {"model.norm.weight", {8}},
      {"lm_head.weight", {11, 8}}};
  EXPECT_EQ(shapes_of(model), expected);
  model.tied = true;
  EXPECT_FALSE(shapes_of(model).contains("lm_head.weight"));
}

TEST(NamedParts, OfQwenHaveBiasesOrNormsOfHeads) {
  ModelSpec model = testing::tiny_qwen();  // 3 heads and 1, 4 wide
  model.shape.head_norm = false;
  EXPECT_EQ(library_model(model), LibraryModel::qwen2);
  EXPECT_EQ(shapes_of(model).at("model.layers.1.self_attn.q_proj.bias"),
            (std::vector<std::int64_t>{12}));
  EXPECT_EQ(shapes_of(model).at("model.layers.1.self_attn.k_proj.bias"),
            (std::vector<std::int64_t>{4}));
  model.shape.head_norm = true;
  EXPECT_EQ(library_model(model), LibraryModel::none) << "biases of queries alone, and norms";
  model.shape.query_bias = false;
  EXPECT_EQ(library_model(model), LibraryModel::qwen3);
  EXPECT_EQ(shapes_of(model).at("model.layers.0.self_attn.k_norm.weight"),
            (std::vector<std::int64_t>{4}));
}

// Every element of each tensor is in one part, at the place that the library has it in.
TEST(NamedParts, GoOutAndComeBack) {
  ModelSpec qwen = testing::tiny_qwen();
  qwen.shape.query_bias = false;
  for (const ModelSpec& model : {testing::tiny_gpt(), testing::tiny_llama(), qwen}) {
    for (const LayerTensor& each : tensors_of(model)) {
      if (is_tied_copy(model, each.tensor)) continue;
      const auto values = testing::random_numbers<float>(each.tensor.size(), 3);
      std::vector<float> back(values.size());
      std::int64_t taken = 0;
      for (const NamedPart& part : named_parts(model, each.tensor)) {
        std::vector<float> of_part(static_cast<std::size_t>(part.size()));
        take_part(part, values, of_part);
        put_part(part, of_part, back);
        taken += part.size();
      }
      EXPECT_EQ(taken, each.tensor.size()) << each.tensor.name;
      EXPECT_EQ(back, values) << each.tensor.name;
    }
  }
}

TEST(NamedParts, KeysStandBehindQueriesInTheirColumns) {
  const ModelSpec model = testing::tiny_llama();
  for (const LayerTensor& each : tensors_of(model)) {
    if (each.tensor.name != "block1.attention.qkv.weight") continue;
    const auto values = testing::random_numbers<float>(8 * 16, 3);
    const NamedPart keys = named_parts(model, each.tensor).at(1);
    EXPECT_EQ(keys.name, "model.layers.1.self_attn.k_proj.weight");
    std::vector<float> taken(4 * 8);
    take_part(keys, values, taken);
    EXPECT_EQ(taken[0], values[8]);
    EXPECT_EQ(taken[1], values[16 + 8]);  // the next input
    EXPECT_EQ(taken[8], values[9]);       // the next output
  }
}

TEST(LibraryModel, ConfigurationsAreReadBack) {
  ModelSpec qwen3 = testing::tiny_qwen(), qwen2 = qwen3, wide = testing::tiny_gpt();
  qwen3.shape.query_bias = false;
  qwen2.shape.head_norm = false;
  wide.architecture = Architecture::transformer;
  wide.shape = shape_of(testing::tiny_gpt());
  wide.shape.mlp_width = 21;
  for (ModelSpec model : {testing::tiny_gpt(), wide, testing::tiny_llama(),
                          testing::tiny_llama(true), qwen2, qwen3}) {
    const std::string text = library_config(model);
    ASSERT_NE(text, "");
    const ModelSpec read = parse_model("config.json", text);
    model.name = read.name;
    EXPECT_EQ(read, model) << text;
  }
  EXPECT_EQ(library_config(testing::tiny_linear()), "");
  EXPECT_EQ(library_config(testing::tiny_qwen()), "");
}

}  // namespace
}  // namespace tandem
