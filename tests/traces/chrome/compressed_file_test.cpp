#include "traces/chrome/compressed_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/trace_files.h"
#include "traces/chrome/atomic_file.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What a file of these bytes holds, or why it can't be read.
std::string content_of(const std::string& bytes) {
  const Folder folder;
  std::ofstream(folder / "file", std::ios::binary) << bytes;
  CompressedFile file(folder / "file");
  std::string content;
  std::string piece(1000, ' ');
  try {
    while (const std::size_t size = file.read(piece.data(), piece.size()))
      content += piece.substr(0, size);
  } catch (const UnreadableBytes& error) {
    return "unreadable: " + error.reason;
  }
  return content;
}

std::string gzip(const std::string& text) {
  const Folder folder;
  AtomicFile file(folder / "a.gz");
  file.write(text);
  file.finish();
  return text_of(folder / "a.gz");
}

/// Hardly compressible, so that a file of it is longer than what is read at once.
std::string long_text() {
  std::string text;
  for (std::uint32_t i = 1; i < 200'000; ++i) text += static_cast<char>(i * 2654435761U >> 24);
  return text;
}

TEST(CompressedFile, IsReadAsItIsOrUncompressed) {
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("\x1f"), long_text()}) {
    EXPECT_EQ(content_of(text), text);
    EXPECT_EQ(content_of(gzip(text)), text);
  }
}

TEST(CompressedFile, MayHaveSeveralMembersAndZerosBehind) {
  EXPECT_EQ(content_of(gzip("one ") + gzip("") + gzip("two")), "one two");
  EXPECT_EQ(content_of(gzip(long_text()) + gzip(long_text())), long_text() + long_text());
  EXPECT_EQ(content_of(gzip("one") + std::string(100'000, '\0')), "one");
}

TEST(CompressedFile, RefusesWhatFollowsIt) {
  const std::string whole = gzip("one");
  const std::string why = "unreadable: the gzip data end at byte " + std::to_string(whole.size()) +
                          ", and what follows is not gzip's";
  EXPECT_EQ(content_of(whole + "{}"), why);
  EXPECT_EQ(content_of(whole + std::string(100'000, '\0') + "x"), why);
  EXPECT_THAT(content_of(whole + "\x1f\x8b junk"), StartsWith("unreadable: damaged gzip data "));
}

TEST(CompressedFile, RefusesWhatIsCutOffOrDamaged) {
  const std::string whole = gzip(long_text());
  // Within the header, the data, the checksum and the length.
  for (const std::size_t size : {std::size_t{2}, std::size_t{9}, whole.size() / 2, whole.size() - 9,
                                 whole.size() - 5, whole.size() - 1}) {
    EXPECT_EQ(content_of(whole.substr(0, size)), "unreadable: the gzip data are cut off") << size;
  }
  EXPECT_EQ(content_of(gzip("one") + gzip("two").substr(0, 15)),
            "unreadable: the gzip data are cut off");
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_THAT(content_of(damaged), HasSubstr("incorrect data check"));
}

}  // namespace
}  // namespace tandem::testing
