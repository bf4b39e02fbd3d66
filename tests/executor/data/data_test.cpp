#include "executor/data/data.h"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "executor/data/permutation.h"
#include "tests/core/error_of.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

using testing::error_of;

ModelSpec byte_model() {
  ModelSpec model = testing::tiny_gpt();
  model.vocabulary = 256;
  return model;
}

template <class T>
Sample<T> microbatch(const Data& data, std::int64_t k) {
  Sample<T> sample;
  data.fill(k, sample);
  return sample;
}

TEST(ShippedText, IsGenesisInPlainAscii) {
  const std::string_view text = shipped_text();
  EXPECT_EQ(text.size(), 197'459U);
  EXPECT_NE(text.find("\nIn the beginning God created the heaven and the earth.\n"), text.npos);
  EXPECT_TRUE(text.ends_with("and he was put in a coffin in Egypt.\n"));
  for (const char letter : text) {
    ASSERT_TRUE(letter == '\n' || (letter >= ' ' && letter <= '~'));
  }
}

TEST(Data, TargetsAreTheTokensThatFollow) {
  const Data data(byte_model(), 3, 1);
  for (std::int64_t k = 0; k < 20; ++k) {
    const Sample<float> sample = microbatch<float>(data, k);
    ASSERT_EQ(sample.tokens.size(), 18U);
    for (std::size_t row = 0; row < 3; ++row) {
      std::string text;
      for (std::size_t i = 0; i < 6; ++i) {
        text.push_back(static_cast<char>(sample.tokens[row * 6 + i]));
      }
      text.push_back(static_cast<char>(sample.targets[row * 6 + 5]));
      EXPECT_NE(shipped_text().find(text), std::string_view::npos) << text;
      for (std::size_t i = 0; i + 1 < 6; ++i) {
        ASSERT_EQ(sample.targets[row * 6 + i], sample.tokens[row * 6 + i + 1]);
      }
    }
  }
}

TEST(Data, IsAPureFunctionOfSeedAndMicrobatch) {
  const Data data(byte_model(), 2, 7), same(byte_model(), 2, 7), other(byte_model(), 2, 8);
  const auto fifth = microbatch<float>(data, 5).tokens;
  Sample<float> reused;
  for (const std::int64_t k : {9, 0, 5}) {
    same.fill(k, reused);
  }
  EXPECT_EQ(reused.tokens, fifth);
  EXPECT_EQ(microbatch<double>(data, 5).tokens, fifth);
  EXPECT_NE(microbatch<float>(data, 6).tokens, fifth);
  EXPECT_NE(microbatch<float>(other, 5).tokens, fifth);
}

// So that runs with other microbatch sizes see the same samples in the same order.
TEST(Data, SamplesDoNotDependOnTheMicrobatchSize) {
  for (const ModelSpec& model : {byte_model(), testing::tiny_linear()}) {
    const Data ones(model, 1, 7), fours(model, 4, 7);
    const Sample<float> four = microbatch<float>(fours, 2);
    Sample<float> joined;
    for (std::int64_t k = 8; k < 12; ++k) {
      const Sample<float> one = microbatch<float>(ones, k);
      joined.tokens.insert(joined.tokens.end(), one.tokens.begin(), one.tokens.end());
      joined.inputs.insert(joined.inputs.end(), one.inputs.begin(), one.inputs.end());
      joined.expected.insert(joined.expected.end(), one.expected.begin(), one.expected.end());
    }
    EXPECT_EQ(joined.tokens, four.tokens);
    EXPECT_EQ(joined.inputs, four.inputs);
    EXPECT_EQ(joined.expected, four.expected);
  }
}

TEST(Data, ReachesTheWholeOfAShortText) {
  const std::string text = "abcdefghij";  // Samples of 6 and a target begin at 0 … 3.
  const Data data(byte_model(), 1, 1, Tokens::of_text(text, "letters"));
  std::set<std::int32_t> begins;
  for (std::int64_t k = 0; k < 200; ++k) {
    begins.insert(microbatch<float>(data, k).tokens[0]);
  }
  EXPECT_EQ(begins, (std::set<std::int32_t>{'a', 'b', 'c', 'd'}));
}

TEST(Data, BytesAreUnsigned) {
  const Data data(byte_model(), 1, 1, Tokens::of_text(std::string(7, '\xff'), "bytes"));
  EXPECT_EQ(microbatch<float>(data, 0).tokens, std::vector<std::int32_t>(6, 255));
}

TEST(Data, GivesALinearModelSmallIntegers) {
  const Data data(testing::tiny_linear(), 2, 3);
  std::set<float> inputs, expected;
  for (std::int64_t k = 0; k < 50; ++k) {
    const Sample<float> sample = microbatch<float>(data, k);
    ASSERT_EQ(sample.inputs.size(), 8U);
    inputs.insert(sample.inputs.begin(), sample.inputs.end());
    expected.insert(sample.expected.begin(), sample.expected.end());
  }
  EXPECT_EQ(inputs, (std::set<float>{-1, 0, 1}));
  EXPECT_EQ(expected, (std::set<float>{-2, -1, 0, 1, 2}));
}

TEST(Data, RefusesWhatItCannotCut) {
  EXPECT_EQ(error_of([] { const Data data(testing::tiny_gpt(), 1, 1); }),
            "model \"tiny\": a vocabulary of 11 can't hold byte tokens; 256 can");
  EXPECT_EQ(
      error_of([] { const Data data(byte_model(), 1, 1, Tokens::of_text("sixsix", "notes.txt")); }),
      "notes.txt: 6 tokens are fewer than the 7 of one sample of model \"tiny\"");
  EXPECT_EQ(error_of([] {
              const Data data(byte_model(), 1, 1, Tokens::of_text("sevense", "notes.txt"));
            }),
            "nothing was thrown");
}

TEST(Data, SpreadVisitsEverySampleOnceBeforeAnyTwice) {
  for (const std::size_t samples : {1u, 2u, 7u, 101u}) {
    std::string text;  // of sample i: the byte i, but that a target reaches into the next
    for (std::size_t i = 0; i < samples * 6 + 3; ++i) text.push_back(static_cast<char>(i / 6));
    const Data data(byte_model(), 1, 1, Tokens::of_text(text, "text"), SampleOrder::spread);
    ASSERT_EQ(data.distinct_samples(), static_cast<std::int64_t>(samples));
    std::set<std::int32_t> seen, early;
    for (std::int64_t k = 0; k < data.distinct_samples(); ++k) {
      const Sample<float> sample = microbatch<float>(data, k);
      ASSERT_EQ(sample.tokens.front(), sample.tokens.back()) << "side by side";
      seen.insert(sample.tokens[0]);
      if (k < 10) early.insert(sample.tokens[0] / 10);
    }
    EXPECT_EQ(seen.size(), samples);
    if (samples == 101) {
      EXPECT_GE(early.size(), 8u) << "ten of a hundred are spread over nearly all tenths";
    }
    EXPECT_EQ(microbatch<float>(data, data.distinct_samples()).tokens,
              microbatch<float>(data, 0).tokens);
  }
}

TEST(Data, ShuffledVisitsEverySampleOnceAnEpoch) {
  for (const std::size_t samples : {1u, 2u, 7u, 16u, 17u, 40u}) {
    std::string text;  // of sample i: the byte i, but that a target reaches into the next
    for (std::size_t i = 0; i < samples * 6 + 3; ++i) text.push_back(static_cast<char>(i / 6));
    const Tokens tokens = Tokens::of_text(text, "text");
    const Data data(byte_model(), 1, 1, tokens, SampleOrder::shuffled);
    const Data other(byte_model(), 1, 2, tokens, SampleOrder::shuffled);
    const Data threes(byte_model(), 3, 1, tokens, SampleOrder::shuffled);
    std::vector<std::vector<std::int32_t>> epochs(3), others(3);
    for (std::int64_t k = 0; k < data.distinct_samples() * 3; ++k) {
      const auto epoch = static_cast<std::size_t>(k / data.distinct_samples());
      const std::int32_t sample = microbatch<float>(data, k).tokens[0];
      epochs[epoch].push_back(sample);
      others[epoch].push_back(microbatch<float>(other, k).tokens[0]);
      const auto row = static_cast<std::size_t>(k % 3) * 6;
      ASSERT_EQ(microbatch<float>(threes, k / 3).tokens[row], sample) << "by number, not by size";
    }
    for (const auto& epoch : epochs) {
      const std::set<std::int32_t> seen(epoch.begin(), epoch.end());
      EXPECT_EQ(seen.size(), samples);
    }
    if (samples < 7) continue;
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
    EXPECT_NE(epochs[0], others[0]) << "another seed, another order";
  }
}

// The first sample of many orders is as often one as another: 64 bins of 64 on average, a variance
// of 64, so that a bin beyond 8 standard deviations has a chance below 1e-13.
TEST(Data, ShuffledIsEven) {
  std::vector<int> count(64);
  for (std::uint64_t seed = 0; seed < 4096; ++seed) ++count[permuted(seed, 5, 64, seed % 64)];
  for (const int each : count) EXPECT_NEAR(each, 64, 64);
}

TEST(Data, TakesTheNumbersOfATokenFile) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("tandem_data_test_" + std::to_string(::getpid()) + ".bin"))
                               .string();
  write_token_file(path, std::vector<std::int32_t>{10, 9, 8, 7, 6, 5, 4});
  const ModelSpec model = testing::tiny_gpt();  // with a vocabulary of 11
  const Sample<float> sample = microbatch<float>(Data(model, 1, 1, Tokens::of_file(path)), 0);
  EXPECT_EQ(sample.tokens, (std::vector<std::int32_t>{10, 9, 8, 7, 6, 5}));
  EXPECT_EQ(sample.targets, (std::vector<std::int32_t>{9, 8, 7, 6, 5, 4}));
  write_token_file(path, std::vector<std::int32_t>{10, 9, 8, 7, 6, 5, 11});
  EXPECT_EQ(error_of([&] { const Data data(model, 1, 1, Tokens::of_file(path)); }),
            path + ": token 6 is 11, beyond a vocabulary of 11");
  std::filesystem::remove(path);
}

TEST(ShippedText, IsTrainedOnButForItsLastChapters) {
  const auto text_of = [](const Tokens& tokens) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, numbers);
    return std::string(numbers.begin(), numbers.end());
  };
  const std::string training = text_of(shipped_training_tokens());
  const std::string held_out = text_of(shipped_held_out_tokens());
  EXPECT_EQ(training + held_out, shipped_text());
  EXPECT_TRUE(held_out.starts_with("\nGenesis 47\n"));
  EXPECT_EQ(training.find("Genesis 47"), std::string::npos);
}

}  // namespace
}  // namespace tandem
