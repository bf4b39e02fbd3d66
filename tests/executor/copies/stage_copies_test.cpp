// Files of one stage's copies: which are found, how many are kept, which are written over.

#include "executor/copies/stage_copies.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "tests/support/run_command.h"

namespace tandem {
namespace {

class CopiesOfAStage : public ::testing::Test {
 protected:
  std::string folder() const { return folder_.path().string(); }
  void put(const std::string& name) const { std::ofstream(folder_.path() / name) << "left"; }
  /// "stage batches: content".
  std::vector<std::string> found() const {
    std::vector<std::string> all;
    for (const StageCopy& copy : copies_in(folder())) {
      std::ifstream stream(copy.path);
      all.push_back(fmt::format("{} {}: {}", copy.stage, copy.batches,
                                std::string(std::istreambuf_iterator<char>(stream), {})));
    }
    return all;
  }
  static ino_t number_of(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CopiesOfAStage, AreFoundByTheirNames) {
  for (const char* name :
       {"stage-1.step-00000002", "stage-0.step-00000002", "stage-12.step-123456789",
        ".stage-0.half-written", "stage-x.step-00000001", "stage-1.step-", "stage-1",
        "step-00000001", "stage-1.other"})
    put(name);
  EXPECT_THAT(found(), ::testing::ElementsAre("0 2: left", "1 2: left", "12 123456789: left"));
  EXPECT_TRUE(copies_in(folder() + "/nowhere").empty());
}

TEST_F(CopiesOfAStage, AreTheNewestAndNoneOfAnAbandonedFuture) {
  for (const char* name : {"stage-3.step-00000004", "stage-3.step-00000005",
                           "stage-3.step-00000006", "stage-4.step-00000006"})
    put(name);
  StageCopies copies(folder(), 3, 5, 2);
  EXPECT_THAT(found(), ::testing::ElementsAre("3 4: left", "3 5: left", "4 6: left"));
  for (std::int64_t batches = 6; batches <= 9; ++batches) {
    copies.append("new ");
    copies.append(std::to_string(batches));
    EXPECT_EQ(copies.size(), 5);
    EXPECT_EQ(copies.finish(batches).batches, batches);
  }
  EXPECT_THAT(found(), ::testing::ElementsAre("4 6: left", "3 8: new 8", "3 9: new 9"));
}

/// Memory that is there is written over, but not what others may read: they keep what they opened.
TEST_F(CopiesOfAStage, WriteOverTheirOwnAlone) {
  put("stage-0.step-00000001");
  const std::string left = folder() + "/stage-0.step-00000001";
  std::ifstream reader(left);
  StageCopies copies(folder(), 0, 1, 1);
  const auto write = [&](std::int64_t batches, std::string_view text) {
    copies.append(text);
    return number_of(copies.finish(batches).path);
  };
  const ino_t first = write(2, "a longer one");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "left");
  EXPECT_EQ(write(3, "short"), first);
  EXPECT_THAT(found(), ::testing::ElementsAre("0 3: short")) << "nothing of the longer one";
}

TEST_F(CopiesOfAStage, FailWhereTheFolderIsGone) {
  StageCopies copies(folder() + "/nowhere", 0, 0, 1);
  EXPECT_THROW(copies.append("one"), DeviceError);
}

}  // namespace
}  // namespace tandem
