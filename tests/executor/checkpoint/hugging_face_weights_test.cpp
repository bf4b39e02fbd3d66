// Weights of folders of Hugging Face's library: names, layouts, types, indexes; and everything that
// is wrong with them, all at once.

#include "executor/checkpoint/hugging_face_weights.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tests/support/run_command.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// Tensors by name, of whole numbers, which every type holds.
struct Foreign {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Foreigns = std::map<std::string, Foreign>;

ModelSpec tiny(bool tied = true) {
  return {.name = "tiny",
          .blocks = 1,
          .width = 4,
          .heads = 2,
          .sequence = 3,
          .vocabulary = 5,
          .tied = tied};
}

/// GPT-2's, as the library writes them.
Foreigns gpt2() {
  Foreigns all;
  int next = 1;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    Foreign& made = all["transformer." + name];
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    made.shape = std::move(shape);
    for (std::int64_t i = 0; i < size; ++i) made.values.push_back(static_cast<float>(next++ % 97));
  };
  add("wte.weight", {5, 4});
  add("wpe.weight", {3, 4});
  for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
    add(fmt::format("{}.weight", norm), {4});
    add(fmt::format("{}.bias", norm), {4});
  }
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> products = {
      {"h.0.attn.c_attn", {4, 12}},
      {"h.0.attn.c_proj", {4, 4}},
      {"h.0.mlp.c_fc", {4, 16}},
      {"h.0.mlp.c_proj", {16, 4}}};
  for (const auto& [name, shape] : products) {
    add(name + ".weight", {shape.first, shape.second});
    add(name + ".bias", {shape.second});
  }
  return all;
}

void append(std::string& bytes, float value, const std::string& type) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  if (type == "F32") {
    bytes.append(reinterpret_cast<const char*>(&wide), 4);
    return;
  }
  std::uint16_t narrow = static_cast<std::uint16_t>(wide >> 16U);
  if (type == "F16") {
    const std::uint32_t exponent = (wide >> 23U) & 0xFFU;
    narrow = value == 0
                 ? 0
                 : static_cast<std::uint16_t>(((exponent - 112) << 10U) | ((wide >> 13U) & 0x3FFU));
  }
  bytes.append(reinterpret_cast<const char*>(&narrow), 2);
}

void write_tensors(const std::string& path, const Foreigns& all, const std::string& type = "F32") {
  std::vector<StoredTensor> tensors;
  std::string bytes;
  for (const auto& [name, foreign] : all) {
    const std::uint64_t begin = bytes.size();
    for (const float value : foreign.values) append(bytes, value, type);
    tensors.push_back({name, type, foreign.shape, begin, bytes.size()});
  }
  write_file(path, safetensors_head(tensors) + bytes);
}

class WeightsFolder : public ::testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_ + "/" + name; }

  std::string reason(const ModelSpec& model = tiny()) const {
    try {
      const HuggingFaceWeights weights(folder_, model);
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  }
  static std::vector<float> read(const HuggingFaceWeights& weights, const ModelSpec& model,
                                 const std::string& name) {
    for (const LayerTensor& each : tensors_of(model)) {
      if (each.tensor.name != name) continue;
      std::vector<float> values(static_cast<std::size_t>(each.tensor.size()));
      EXPECT_TRUE(weights.read(kNewestWeights, each.tensor, values));
      EXPECT_FALSE(weights.read({PlaneKind::first_moment}, each.tensor, values));
      return values;
    }
    ADD_FAILURE() << name;
    return {};
  }

  testing::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
};

TEST_F(WeightsFolder, HoldsGpt2InEveryTypeAndWithOrWithoutPrefix) {
  for (const std::string type : {"F32", "BF16", "F16"}) {
    for (const bool prefix : {true, false}) {
      Foreigns given;
      for (auto& [name, foreign] : gpt2())
        given[prefix ? name : name.substr(std::strlen("transformer."))] = foreign;
      given["h.0.attn.bias"] = {{1, 1, 3, 3}, std::vector<float>(9, 1)};  // an old file's mask
      write_tensors(in("model.safetensors"), given, type);
      const HuggingFaceWeights weights(folder_, tiny());
      const Foreigns all = gpt2();
      EXPECT_EQ(read(weights, tiny(), "block0.attention.qkv.weight"),
                all.at("transformer.h.0.attn.c_attn.weight").values);
      EXPECT_EQ(read(weights, tiny(), "block0.mlp.projection.bias"),
                all.at("transformer.h.0.mlp.c_proj.bias").values);
      EXPECT_EQ(read(weights, tiny(), "head.projection.weight"),
                all.at("transformer.wte.weight").values);
      EXPECT_TRUE(weights.notes().empty());
    }
  }
}

TEST_F(WeightsFolder, OfShardsIsReadByItsIndex) {
  Foreigns first = gpt2(), second;
  second.insert(first.extract("transformer.wte.weight"));
  write_tensors(in("a.safetensors"), first);
  write_tensors(in("b.safetensors"), second);
  const auto index = [&](const std::string& file) {
    write_file(in("model.safetensors.index.json"),
               fmt::format(R"({{"metadata": {{"total_size": 1}}, "weight_map": {{
                              "transformer.wte.weight": "{}", "other": "a.safetensors"}}}})",
                           file));
  };
  index("b.safetensors");
  const HuggingFaceWeights weights(folder_, tiny());
  EXPECT_EQ(read(weights, tiny(), kTokenTable), gpt2().at("transformer.wte.weight").values);

  // With the prefix of the class or without, it is the same tensor.
  for (const char* again : {"transformer.ln_f.bias", "ln_f.bias"}) {
    Foreigns both = second;
    both[again] = gpt2().at("transformer.ln_f.bias");
    write_tensors(in("b.safetensors"), both);
    EXPECT_THAT(reason(), ::testing::HasSubstr(fmt::format("{} is there twice", again)));
  }
  write_tensors(in("b.safetensors"), second);
  EXPECT_EQ(reason(), "none");

  for (const char* outside : {"../b.safetensors", "/etc/passwd", "..", "x/b.safetensors"}) {
    index(outside);
    EXPECT_THAT(reason(), ::testing::HasSubstr("a file in the same folder")) << outside;
  }
  index("c.safetensors");
  EXPECT_THAT(reason(), ::testing::HasSubstr("c.safetensors: No such file"));
}

TEST_F(WeightsFolder, WithMorePositionsGivesTheFirst) {
  Foreigns all = gpt2();
  all["transformer.wpe.weight"].shape = {4, 4};
  all["transformer.wpe.weight"].values.resize(16);
  write_tensors(in("model.safetensors"), all);
  const HuggingFaceWeights weights(folder_, tiny());
  EXPECT_EQ(weights.notes().size(), 1U);
  EXPECT_EQ(read(weights, tiny(), kPositionTable), gpt2().at("transformer.wpe.weight").values);
}

TEST_F(WeightsFolder, IsRefusedWithAllThatIsWrong) {
  Foreigns all = gpt2();
  all.erase("transformer.ln_f.bias");
  all["transformer.h.0.ln_1.weight"] = {{2, 2}, {1, 2, 3, 4}};
  all["transformer.h.1.ln_1.weight"] = {{4}, {1, 2, 3, 4}};
  write_tensors(in("model.safetensors"), all);
  const std::string said = reason();
  for (const char* fault : {"transformer.ln_f.bias is missing",
                            "transformer.h.0.ln_1.weight has the shape [2, 2], not [4]",
                            "transformer.h.1.ln_1.weight is no tensor of the model"})
    EXPECT_THAT(said, ::testing::HasSubstr(fault));

  write_tensors(in("model.safetensors"), gpt2());
  EXPECT_EQ(reason(), "none");
  EXPECT_THAT(reason(tiny(false)), ::testing::HasSubstr("lm_head.weight is missing"));
  all = gpt2();
  all["lm_head.weight"] = all["transformer.wte.weight"];
  write_tensors(in("model.safetensors"), all);
  EXPECT_EQ(reason(), "none");  // the tied table again
  EXPECT_EQ(reason(tiny(false)), "none");
  fs::remove(in("model.safetensors"));
  EXPECT_THAT(reason(), ::testing::HasSubstr("neither model.safetensors nor"));
}

}  // namespace
}  // namespace tandem
