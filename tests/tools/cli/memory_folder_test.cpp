// A folder in this host's memory: with its owner it goes; one that others name is made, and stays.

#include "tools/cli/memory_folder.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "core/base/error.h"

namespace tandem::tools {
namespace {

namespace fs = std::filesystem;

/// Whether nobody uses it: then it may be taken for left over.
bool is_free(const std::string& folder) {
  const Descriptor other(open_file(folder, O_RDONLY | O_DIRECTORY));
  return ::flock(other.value(), LOCK_EX | LOCK_NB) == 0;
}

TEST(AMemoryFolder, GoesWithItsOwner) {
  std::string path;
  {
    const MemoryFolder folder;
    path = folder.path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    EXPECT_FALSE(is_free(path));
    std::ofstream(path + "/file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(AMemoryFolder, IsJoinedByMany) {
  const MemoryFolder owner;
  const std::string elsewhere = owner.path() + "/elsewhere";
  {
    const Descriptor first = join_memory_folder(elsewhere), second = join_memory_folder(elsewhere);
    EXPECT_EQ(fs::status(elsewhere).permissions(), fs::perms::owner_all);
    EXPECT_TRUE(join_memory_folder(owner.path()).valid()) << "beside its owner";
    EXPECT_FALSE(is_free(elsewhere));
  }
  EXPECT_TRUE(fs::exists(elsewhere)) << "for those who are started again";
  EXPECT_TRUE(is_free(elsewhere));
}

TEST(AMemoryFolder, IsNoFileNorLinkNorInAnother) {
  const MemoryFolder owner;
  const auto reason = [](const std::string& path) {
    try {
      join_memory_folder(path);
    } catch (const AbsentError& error) {
      return std::string(error.what());
    }
    return std::string("joined");
  };
  std::ofstream(owner.path() + "/file") << "x";
  fs::create_directory(owner.path() + "/other");
  fs::create_directory_symlink("other", owner.path() + "/link");
  EXPECT_THAT(reason(owner.path() + "/file"), ::testing::HasSubstr("is no folder of this user's"));
  EXPECT_THAT(reason(owner.path() + "/link"), ::testing::HasSubstr("is no folder of this user's"));
  EXPECT_THAT(reason(owner.path() + "/nowhere/one"), ::testing::HasSubstr("can't be made"));
}

}  // namespace
}  // namespace tandem::tools
