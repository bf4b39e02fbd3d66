// Token files byte by byte, and what is said of broken ones.

#include "executor/data/tokens.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/core/error_of.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

class TokenFile : public ::testing::Test {
 protected:
  TokenFile() { std::filesystem::create_directory(folder_); }
  ~TokenFile() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tandem_tokens_test_" + std::to_string(::getpid()));
};

std::vector<std::int32_t> all_of(const Tokens& tokens) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, all);
  return all;
}

/// The format, spelled out: 256 little-endian int32, then uint16.
std::string token_file_of(std::vector<std::int32_t> header,
                          const std::vector<std::uint16_t>& tokens) {
  header.resize(256);
  std::string bytes;
  for (const std::int32_t word : header) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(word) >> shift));
    }
  }
  for (const std::uint16_t token : tokens) {
    bytes.push_back(static_cast<char>(token));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return bytes;
}

TEST_F(TokenFile, IsReadAndWrittenAsLlmCDoes) {
  const std::vector<std::uint16_t> numbers{7, 50'256, 0, 65'535};
  const std::vector<std::int32_t> ids(numbers.begin(), numbers.end());
  const std::string expected = token_file_of({20240520, 1, 4}, numbers);
  write_token_file(path("out.bin"), ids);
  EXPECT_TRUE(read(path("out.bin")) == expected);
  const Tokens tokens = Tokens::of_file(write("in.bin", expected));
  EXPECT_EQ(all_of(tokens), std::vector<std::int32_t>({7, 50'256, 0, 65'535}));
  EXPECT_FALSE(tokens.are_bytes());
}

TEST_F(TokenFile, ThatIsBrokenIsRefused) {
  const auto diagnostic = [&](const std::string& bytes) {
    const std::string file = write("x.bin", bytes);
    const std::string message = error_of([&] { Tokens::of_file(file); });
    return message.starts_with(file) ? message.substr(file.size()) : message;
  };
  const std::vector<std::uint16_t> three{1, 2, 3};
  EXPECT_EQ(diagnostic(token_file_of({20240520, 1, 3}, three)), "nothing was thrown")
      << "the control";
  EXPECT_THAT(diagnostic("short"), AllOf(HasSubstr("no token file"), HasSubstr("its 5 bytes")));
  EXPECT_THAT(diagnostic(token_file_of({20240520, 1, 3}, three).substr(0, 100)),
              AllOf(HasSubstr("100 bytes"), HasSubstr("1024")));
  EXPECT_THAT(diagnostic(token_file_of({20240521, 1, 3}, three) + "x"), HasSubstr("20240520"));
  EXPECT_EQ(diagnostic(token_file_of({20240801, 1, 3}, three)),
            ": expected version 7 of token files, found 1");
  EXPECT_EQ(diagnostic(token_file_of({20240801, 7, 3}, three)),
            ": expected 12 bytes of 3 tokens after the header, found 6");
  EXPECT_EQ(diagnostic(token_file_of({20240520, 7, 3}, three)),
            ": expected version 1 of token files, found 7");
  EXPECT_EQ(diagnostic(token_file_of({20240520, 1, 0}, {})),
            ": expected at least one token, found 0");
  EXPECT_EQ(diagnostic(token_file_of({20240520, 1, -3}, three)),
            ": expected at least one token, found -3");
  EXPECT_EQ(diagnostic(token_file_of({20240520, 1, 4}, three)),
            ": expected 8 bytes of 4 tokens after the header, found 6");
  EXPECT_EQ(diagnostic(token_file_of({20240520, 1, 2}, three)),
            ": expected 4 bytes of 2 tokens after the header, found 6");
}

TEST_F(TokenFile, OfLlama3HasThirtyTwoBits) {
  const std::string expected =
      token_file_of({20240801, 7, 3}, {0xF4FF, 1, 7, 0, 0, 1});  // the lower halves first
  const std::vector<std::int32_t> ids{0x1F4FF, 7, 0x10000};
  write_token_file(path("out.bin"), ids);
  EXPECT_TRUE(read(path("out.bin")) == expected);
  const Tokens tokens = Tokens::of_file(path("out.bin"));
  EXPECT_EQ(all_of(tokens), ids);
  EXPECT_EQ(error_of([&] { tokens.check_within(0x1F4FF); }),
            path("out.bin") + ": token 0 is 128255, beyond a vocabulary of 128255");
  const std::string huge = write("huge.bin", token_file_of({20240801, 7, 1}, {0xFFFF, 0xFFFF}));
  EXPECT_EQ(error_of([&] { Tokens::of_file(huge).check_within(0x7FFFFFFF); }),
            huge + ": token 0 is 4294967295, beyond a vocabulary of 2147483647");
}

TEST_F(TokenFile, OfNanoGptHasNoHeader) {
  const std::string header = token_file_of({20240520, 1, 2}, {258, 7});
  const Tokens raw = Tokens::of_file(write("raw.bin", header.substr(1024)));
  EXPECT_EQ(all_of(raw), (std::vector<std::int32_t>{258, 7}));
  EXPECT_EQ(raw.without_header(), path("raw.bin"));
  EXPECT_EQ(Tokens::of_file(write("with.bin", header)).without_header(), "");
}

TEST_F(TokenFile, InAFolderIsOneOfSeveral) {
  std::filesystem::create_directory(path("shards"));
  const auto refused = [&] { return error_of([&] { Tokens::of_file(path("shards")); }); };
  EXPECT_EQ(refused(), path("shards") + ": a folder without token files (.bin)");
  write_token_file(path("shards/b.bin"), std::vector<std::int32_t>{3, 4, 5});
  write_token_file(path("shards/a.bin"), std::vector<std::int32_t>{1, 2});
  write_token_file(path("shards/c.bin"), std::vector<std::int32_t>{70'000});
  write("shards/readme.txt", "no token file");
  const Tokens tokens = Tokens::of_file(path("shards"));
  EXPECT_EQ(all_of(tokens), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 70'000}));
  EXPECT_FALSE(tokens.are_bytes());
  for (std::int64_t first = 0; first < 6; ++first) {
    for (std::int64_t count = 0; first + count <= 6; ++count) {
      std::vector<std::int32_t> part(static_cast<std::size_t>(count));
      tokens.copy(first, part);
      const auto all = all_of(tokens);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first));
    }
  }
  EXPECT_EQ(error_of([&] { tokens.check_within(5); }),
            path("shards/b.bin") + ": token 2 is 5, beyond a vocabulary of 5");
  write("shards/d.bin", "odd");
  EXPECT_THAT(refused(), ::testing::StartsWith(path("shards/d.bin") + ": no token file"));
}

TEST_F(TokenFile, OfAnyOtherNameIsAText) {
  const Tokens tokens = Tokens::of_file(write("x.txt", std::string("a\0\xff", 3)));
  EXPECT_EQ(all_of(tokens), std::vector<std::int32_t>({'a', 0, 255}));
  EXPECT_TRUE(tokens.are_bytes());
}

TEST_F(TokenFile, ThatCannotBeMappedSaysWhy) {
  const auto diagnostic = [&](const std::string& file) {
    return error_of([&] { Tokens::of_file(file); });
  };
  EXPECT_EQ(diagnostic(write("empty", "")), path("empty") + ": the file is empty");
  EXPECT_EQ(diagnostic(path("nothing")), path("nothing") + ": No such file or directory");
  EXPECT_EQ(diagnostic("/dev/null"), "/dev/null: not a regular file: it can't be mapped");
}

TEST(Tokens, AreTheBytesOfATextWithItsName) {
  const Tokens tokens = Tokens::of_text("cde", "letters");
  EXPECT_EQ(all_of(tokens), std::vector<std::int32_t>({'c', 'd', 'e'}));
  EXPECT_EQ(tokens.source(), "letters");
}

TEST(TokensDeathTest, AreNotReadBeyondTheirEnd) {
  const Tokens tokens = Tokens::of_text("abc", "letters");
  std::vector<std::int32_t> two(2);
  tokens.copy(1, two);
  EXPECT_DEATH(tokens.copy(2, two), "check failed");
}

TEST_F(TokenFile, IsHeldToTheVocabulary) {
  write_token_file(path("x.bin"), std::vector<std::int32_t>{5, 300, 2, 400});
  const Tokens tokens = Tokens::of_file(path("x.bin"));
  EXPECT_EQ(error_of([&] { tokens.check_within(401); }), "nothing was thrown");
  EXPECT_EQ(error_of([&] { tokens.check_within(400); }),
            path("x.bin") + ": token 3 is 400, beyond a vocabulary of 400");
  EXPECT_EQ(error_of([&] { tokens.check_within(256); }),
            path("x.bin") + ": token 1 is 300, beyond a vocabulary of 256");
  EXPECT_EQ(error_of([] { Tokens::of_text("az", "t").check_within('z'); }),
            "t: token 1 is 122, beyond a vocabulary of 122");
}

}  // namespace
}  // namespace tandem
