// What is said of a tokenizer.json that is broken, hostile or not supported.

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/core/error_of.h"
#include "tests/executor/data/tokenizer/fixture.h"

namespace tandem {
namespace {

using testing::encoded;
using testing::error_of;
using ::testing::HasSubstr;

struct Edit {
  std::string fixture, part, instead, message;
};

class TokenizerFault : public ::testing::TestWithParam<Edit> {};

TEST_P(TokenizerFault, IsNamedWithItsPlace) {
  const Edit& fault = GetParam();
  std::string text = testing::tokenizer_fixture(fault.fixture + ".json");
  EXPECT_EQ(error_of([&] { Tokenizer("t.json", text); }), "nothing was thrown") << "the control";
  const std::size_t at = text.find(fault.part);
  ASSERT_NE(at, text.npos) << fault.part;
  text.replace(at, fault.part.size(), fault.instead);
  const std::string message = error_of([&] { Tokenizer("t.json", text); });
  EXPECT_THAT(message, HasSubstr(fault.message));
  EXPECT_THAT(message, ::testing::StartsWith("t.json:"));
}

INSTANTIATE_TEST_SUITE_P(
    Unsupported, TokenizerFault,
    ::testing::Values(
        Edit{"gpt2", R"("truncation":null)", R"("truncation":{"max_length":8})",
              R"(/truncation: "truncation" is not supported)"},
        Edit{"gpt2", R"("padding":null)", R"("padding":{})", R"(/padding: "padding" is not)"},
        Edit{"gpt2", R"("normalizer":null)", R"("normalizer":{"type":"NFKC"})",
              R"(/normalizer/type: the normalizer "NFKC" is not supported)"},
        Edit{"qwen", R"({"type":"NFC"})",
              R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]})",
              R"(/normalizer/normalizers/1/type: the normalizer "Lowercase" is not supported)"},
        Edit{"gpt2", R"("add_prefix_space":false)", R"("add_prefix_space":true)",
              R"("add_prefix_space": true is not supported)"},
        Edit{"qwen", R"("behavior":"Isolated")", R"("behavior":"Removed")",
              R"(the behavior "Removed" is not supported: expected "Isolated")"},
        Edit{"qwen", R"("invert":false)", R"("invert":true)", R"("invert": true is not)"},
        Edit{"qwen", R"({"Regex":)", R"({"String":)", R"("String")"},
        Edit{"qwen", R"((?i:)", R"((?<x>)", R"(the group "(?<x" at byte 0 of the split pattern)"},
        Edit{"gpt2", R"("pre_tokenizer":{"type":"ByteLevel")",
              R"("pre_tokenizer":{"type":"Metaspace")",
              R"(/pre_tokenizer/type: the pre-tokenizer "Metaspace" is not supported)"},
        Edit{"gpt2", R"("decoder":{"type":"ByteLevel")", R"("decoder":{"type":"WordPiece")",
              R"(/decoder/type: the decoder "WordPiece" is not supported)"},
        Edit{"gpt2", R"("post_processor":{"type":"ByteLevel")",
              R"("post_processor":{"type":"RobertaProcessing")",
              R"(the post-processor "RobertaProcessing" is not supported)"},
        Edit{"gpt2", R"("type":"BPE")", R"("type":"Unigram")",
              R"(/model/type: the model "Unigram" is not supported: expected "BPE")"},
        Edit{"gpt2", R"("dropout":null)", R"("dropout":0.1)", R"(/model/dropout: "dropout" is)"},
        Edit{"gpt2", R"("unk_token":null)", R"("unk_token":"a")", R"("unk_token" is not)"},
        Edit{"gpt2", R"("byte_fallback":false)", R"("byte_fallback":true)",
              R"(/model/byte_fallback: "byte_fallback": true is not supported)"},
        Edit{"gpt2", R"("byte_fallback")", R"("byte_fallbacks")", R"("byte_fallback")"},
        Edit{"gpt2", R"("lstrip":false)", R"("lstrip":true)",
              R"(/added_tokens/0/lstrip: "lstrip": true is not supported)"}));

INSTANTIATE_TEST_SUITE_P(
    Broken, TokenizerFault,
    ::testing::Values(
        Edit{"gpt2", R"("a":)", R"("a":1,"a":)", R"("a")"},
        Edit{"gpt2", R"("a":65)", R"("a":66)", "two tokens have the id 66"},
        Edit{"gpt2", R"("a":65)", R"("a":2000000000)", "/model/vocab/a: expected"},
        Edit{"gpt2", R"("a":65)", R"("a":-1)", "/model/vocab/a: expected"},
        Edit{"gpt2", R"("a":65,)", "", "the byte 0x61 has no token"},
        Edit{"gpt2", R"(["t","h"])", R"(["t","h","e"])", "expected a merge of two tokens"},
        Edit{"gpt2", R"(["t","h"])", R"("t h e")", "with one space between"},
        Edit{"gpt2", R"(["t","h"])", R"(["t","zzzz"])",
              R"(the token "zzzz" of this merge is not in the vocabulary)"},
        Edit{"gpt2", R"(["t","h"])", R"(["th","th"])",
              R"(the token "thth" of this merge is not in the vocabulary)"},
        Edit{"gpt2", R"(["t","h"])", R"(["t","h"],["t","h"])", "this merge is there twice"},
        Edit{"gpt2", R"("id":0,"content")", R"("id":1,"content")",
              "/added_tokens/0/id: expected 0, the id in the vocabulary, found 1"},
        Edit{"qwen", R"("id":600,)", R"("id":2000000,)",
              "/added_tokens/0/id: expected 600, the next free id, found 2000000"},
        Edit{"qwen", R"("<|im_end|>")", R"("<|im_start|>")", "this added token is there twice"},
        Edit{"qwen", R"("<|im_end|>")", R"("")", "expected 1 to 1024 bytes, found 0"},
        Edit{"llama3", R"({"Sequence":{"id":"A")", R"({"Sequence":{"id":"B")",
              R"(the sequence "B" is not supported)"}));

// Merges that come before those that make what they start from look like circles. No token is as
// long as one of its parts, so that joining ends.
TEST(TokenizerFile, MergesInACircleEnd) {
  std::string text = testing::tokenizer_fixture("gpt2.json");
  const std::string merges = R"("merges":[)";
  std::string twice = text;
  twice.replace(twice.find(merges), merges.size(), R"("merges":[["t","h"],)");
  EXPECT_THAT(error_of([&] { Tokenizer("t", twice); }), HasSubstr("this merge is there twice"));
  auto json = nlohmann::json::parse(text);
  auto& all = json["model"]["merges"];
  std::reverse(all.begin(), all.end());
  const Tokenizer reversed("reversed", json.dump());
  const std::string words = "In the beginning God created the heaven and the earth.";
  EXPECT_EQ(reversed.decode(encoded(reversed, words)), words);
  EXPECT_LT(encoded(reversed, words).size(), words.size());
}

TEST(TokenizerFile, MergesAreReadInBothForms) {
  const std::string text = testing::tokenizer_fixture("gpt2.json");
  auto json = nlohmann::json::parse(text);
  auto& merges = json["model"]["merges"];
  ASSERT_GT(merges.size(), 300u);
  for (auto& merge : merges) {
    const auto left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
    merge = left + " " + right;
  }
  const Tokenizer pairs("pairs", text), strings("strings", json.dump());
  const std::string words = "In the beginning God created the heaven and the earth.";
  EXPECT_EQ(encoded(strings, words), encoded(pairs, words));
  EXPECT_LT(encoded(strings, words).size(), words.size() * 2 / 3);
}

TEST(TokenizerFile, NestedDeeplyIsRefused) {
  const std::string deep =
      R"({"normalizer":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(error_of([&] { Tokenizer("t", deep); }), HasSubstr("nested at most 64 deep"));
}

TEST(TokenizerFile, ThatIsHugeIsRefused) {
  const std::string huge((std::size_t{64} << 20) + 1, ' ');
  EXPECT_THAT(error_of([&] { Tokenizer("t", huge); }), HasSubstr("larger than 64"));
}

}  // namespace
}  // namespace tandem
