// Ids against those of PyPI's tokenizers, and texts that come back.

#include "executor/data/tokenizer/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "executor/data/data.h"
#include "executor/data/tokenizer/byte_pairs.h"
#include "tests/core/error_of.h"
#include "tests/executor/data/tokenizer/fixture.h"

namespace tandem {
namespace {

using testing::encoded;
using testing::error_of;
using testing::tokenizer_fixture;
using Ids = std::vector<std::int32_t>;

class OfHuggingFace : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name() const { return GetParam(); }
  Tokenizer tokenizer() const { return {name(), tokenizer_fixture(name() + ".json")}; }
};

const nlohmann::json& answers() {
  static const auto all = nlohmann::json::parse(tokenizer_fixture("ids.json"));
  return all;
}

TEST_P(OfHuggingFace, IdsAreTheSame) {
  const Tokenizer tokenizer = this->tokenizer();
  Tokenizer::Encoder encoder(tokenizer);
  const auto& texts = answers()["texts"];
  ASSERT_GT(texts.size(), 400u);
  for (int round = 0; round < 2; ++round) {  // the second of words that it remembers
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto text = texts[i].get<std::string>();
      Ids ids;
      encoder.encode(text, ids);
      ASSERT_EQ(ids, answers()[name()][i].get<Ids>()) << i << ": " << text;
    }
  }
}

TEST_P(OfHuggingFace, IdsOfTheShippedTextAreTheSame) {
  const Ids ids = encoded(tokenizer(), shipped_text());
  std::uint32_t sum = 0, place = 0;
  for (const std::int32_t id : ids) sum += ++place * static_cast<std::uint32_t>(id);
  EXPECT_EQ((std::vector<std::uint32_t>{place, sum}),
            answers()[name() + "_shipped"].get<std::vector<std::uint32_t>>());
}

TEST_P(OfHuggingFace, TextsComeBack) {
  const Tokenizer tokenizer = this->tokenizer();
  const std::string before = name() == "llama3" ? "<|begin_of_text|>" : "";
  std::size_t same = 0;
  for (const auto& one : answers()["texts"]) {
    const auto text = one.get<std::string>();
    const std::string back = tokenizer.decode(encoded(tokenizer, text));
    if (back == before + text) {
      ++same;
      continue;
    }
    ASSERT_EQ(name(), "qwen") << text;  // whose texts are normalized first
    EXPECT_EQ(encoded(tokenizer, back), encoded(tokenizer, text)) << text;
  }
  EXPECT_GE(same, answers()["texts"].size() * 2 / 3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OfHuggingFace, ::testing::Values("gpt2", "llama3", "qwen"),
                         [](const auto& instance) { return std::string(instance.param); });

// The control of the comparisons above: a tokenizer of another kind gives other ids.
TEST(Tokenizer, OfAnotherKindGivesOtherIds) {
  std::string text = tokenizer_fixture("qwen.json");
  const Tokenizer qwen("qwen", text);
  const std::string digits = "\\\\p{N}| ?";
  const std::size_t at = text.find(digits);
  ASSERT_NE(at, text.npos);
  const Tokenizer other("other", text.replace(at, digits.size(), "\\\\p{N}{1,3}| ?"));
  EXPECT_EQ(encoded(qwen, "a 7"), encoded(other, "a 7"));
  EXPECT_NE(encoded(qwen, " 12345 =\n"), Ids());
  const Tokenizer gpt2("gpt2", tokenizer_fixture("gpt2.json"));
  std::size_t differ = 0;
  for (const auto& one : answers()["texts"])
    differ += encoded(other, one.get<std::string>()) != encoded(gpt2, one.get<std::string>());
  EXPECT_GT(differ, 300u);
}

TEST(Tokenizer, IsReadFromAFileOrItsFolder) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("tandem_tokenizer_test_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto file = folder / "tokenizer.json";
  EXPECT_EQ(error_of([&] { Tokenizer::of_file(folder.string()); }),
            file.string() + ": error: cannot open: No such file or directory");
  std::ofstream(file) << tokenizer_fixture("gpt2.json");
  EXPECT_EQ(Tokenizer::of_file(folder.string()).vocabulary(), 600);
  EXPECT_EQ(Tokenizer::of_file(file.string()).vocabulary(), 600);
  std::filesystem::remove_all(folder);
}

TEST(Tokenizer, KnowsWhatEndsADocument) {
  const Tokenizer gpt2("gpt2", tokenizer_fixture("gpt2.json"));
  EXPECT_EQ(gpt2.end_of_text(), 0);
  EXPECT_EQ(gpt2.added_token("<|endoftext|>"), 0);
  EXPECT_EQ(gpt2.added_token("the"), std::nullopt);
  const Tokenizer llama("llama3", tokenizer_fixture("llama3.json"));
  EXPECT_EQ(llama.decode(Ids{llama.end_of_text().value()}), "<|end_of_text|>");
}

TEST(Tokenizer, RefusesWhatItCannotEncodeOrDecode) {
  const Tokenizer gpt2("gpt2", tokenizer_fixture("gpt2.json"));
  EXPECT_EQ(error_of([&] { encoded(gpt2, "ab\xff"); }),
            "expected UTF-8, found the byte 0xFF at byte 2");
  EXPECT_EQ(error_of([&] { encoded(gpt2, "ab\xed\xa0\x80"); }),
            "expected UTF-8, found the byte 0xED at byte 2");
  EXPECT_EQ(error_of([&] { gpt2.decode(Ids{599, 600}); }), "gpt2: there is no token 600");
  EXPECT_EQ(error_of([&] { gpt2.decode(Ids{-1}); }), "gpt2: there is no token -1");
  EXPECT_EQ(error_of([&] { encoded(gpt2, std::string(kLongestWord + 1, 'a')); }),
            "a word of 16777217 bytes is too long: at most 16777216 are supported");
}

}  // namespace
}  // namespace tandem
