// Joining by rank against a loop that does what the definition says.

#include "executor/data/tokenizer/byte_pairs.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/random.h"
#include "executor/data/tokenizer/added_tokens.h"
#include "executor/data/tokenizer/byte_alphabet.h"

namespace tandem {
namespace {

using Ids = std::vector<std::int32_t>;

struct Made {
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  std::vector<MergeRow> merges;
};

/// All bytes as tokens, and merges of random pairs of those of "ab".
Made made_by(std::uint64_t seed, std::size_t merges) {
  Made made;
  for (std::int32_t byte = 0; byte < 256; ++byte)
    made.tokens.emplace_back(std::string(1, static_cast<char>(byte)), byte);
  std::vector<std::size_t> of_letters{'a', 'b'};
  std::map<std::string, bool> known{{"a", true}, {"b", true}};
  for (std::uint64_t draw = 0; made.merges.size() < merges; ++draw) {
    const std::size_t left = of_letters[random_bits(seed, 1, draw) % of_letters.size()];
    const std::size_t right = of_letters[random_bits(seed, 2, draw) % of_letters.size()];
    const std::string joined = made.tokens[left].first + made.tokens[right].first;
    if (joined.size() > 9 || !known.emplace(joined, true).second) continue;
    const auto id = static_cast<std::int32_t>(made.tokens.size());
    made.merges.push_back({static_cast<std::int32_t>(left), static_cast<std::int32_t>(right), id});
    of_letters.push_back(made.tokens.size());
    made.tokens.emplace_back(joined, id);
  }
  return made;
}

/// For each merge in turn: no — the one of least rank anywhere, the leftmost, again and again.
Ids by_definition(const Made& made, const std::string& word) {
  Ids ids;
  for (const char byte : word) ids.push_back(static_cast<unsigned char>(byte));
  while (true) {
    bool joined = false;
    for (std::size_t rank = 0; rank < made.merges.size() && !joined; ++rank) {
      const MergeRow& merge = made.merges[rank];
      for (std::size_t i = 0; i + 1 < ids.size() && !joined; ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.joined;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        joined = true;
      }
    }
    if (!joined) return ids;
  }
}

TEST(BytePairs, JoinsTheLeastRankFirstInShortWordsAndLong) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Made made = made_by(seed, 1 + seed % 13);
    const BytePairs pairs(made.tokens, made.merges, false);
    for (const std::size_t size : {1u, 2u, 3u, 10u, 47u, 48u, 49u, 50u, 120u}) {
      std::string word;
      for (std::size_t i = 0; i < size; ++i) word.push_back("aab"[random_bits(seed, size, i) % 3]);
      Ids ids;
      pairs.encode(word, ids);
      ASSERT_EQ(ids, by_definition(made, word)) << seed << " " << word;
    }
  }
}

TEST(BytePairs, TakesAWholeWordWhereAsked) {
  Made made = made_by(1, 1);
  made.tokens.emplace_back("xyz", 257);
  Ids by_merges, whole;
  BytePairs(made.tokens, made.merges, false).encode("xyz", by_merges);
  BytePairs(made.tokens, made.merges, true).encode("xyz", whole);
  EXPECT_EQ(by_merges, (Ids{'x', 'y', 'z'}));
  EXPECT_EQ(whole, Ids{257});
}

TEST(BytePairs, EncodesAMillionLettersInAMoment) {
  const Made made = made_by(3, 8);
  Ids ids;
  BytePairs(made.tokens, made.merges, false).encode(std::string(1'000'000, 'a'), ids);
  EXPECT_LT(ids.size(), 1'000'001u);
}

TEST(ByteAlphabet, GivesEachByteACharacterOfItsOwn) {
  std::map<std::string, int> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    const std::string token = token_of_bytes(bytes);
    EXPECT_TRUE(seen.emplace(token, byte).second);
    EXPECT_EQ(bytes_of_token(token), bytes);
  }
  EXPECT_EQ(token_of_bytes(" the\n"), "\u0120the\u010A");
  EXPECT_EQ(bytes_of_token("\u0120the\u010A"), " the\n");
  for (const char* const other : {"a b", "\u0144", "\u00AD", "\u5317", "\U0001F642"})
    EXPECT_EQ(bytes_of_token(other), std::nullopt) << other;
}

TEST(AddedTokens, FindsTheLeftmostThenTheLongest) {
  AddedTokens tokens;
  AddedTokens::Match match;
  EXPECT_FALSE(tokens.find("<|a|>", 0, match));
  tokens.add("<|a|>", 1);
  tokens.add("<|a|><|a|>", 2);
  const auto found = [&](std::string_view text, std::size_t from) {
    return tokens.find(text, from, match) ? Ids{match.id, static_cast<std::int32_t>(match.first),
                                                static_cast<std::int32_t>(match.last)}
                                          : Ids{};
  };
  EXPECT_EQ(found("x<|a|>", 0), (Ids{1, 1, 6}));
  EXPECT_EQ(found("x<|a|><|a|><|a|>", 0), (Ids{2, 1, 11}));
  EXPECT_EQ(found("x<|a|><|a|><|a|>", 11), (Ids{1, 11, 16}));
  EXPECT_EQ(found("<|a|", 0), Ids{});
  EXPECT_EQ(found("<<|a|><|", 0), (Ids{1, 1, 6}));
  tokens.add("yes", 3);
  EXPECT_EQ(found("yyes<|a|>", 0), (Ids{3, 1, 4}));
  EXPECT_EQ(found("yyes<|a|>", 2), (Ids{1, 4, 9}));
}

}  // namespace
}  // namespace tandem
