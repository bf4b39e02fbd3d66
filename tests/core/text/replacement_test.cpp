#include "core/text/replacement.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/text/files.h"
#include "tests/core/error_of.h"
#include "tests/support/run_command.h"

namespace {

/// What this program asked of the disk, in order: the two calls below stand before the C library's.
std::vector<std::string> disk_calls;
bool disk_fails = false;

}  // namespace

extern "C" int fsync(int file) {
  disk_calls.emplace_back("fsync");
  if (disk_fails) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  disk_calls.emplace_back("rename");
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using Strings = std::vector<std::string>;

class Replaced : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string read(const std::string& name) const { return read_file(path(name), 1'000'000); }
  Strings files() const {
    Strings names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  int mode(const std::string& name) const {
    return static_cast<int>(fs::status(path(name)).permissions());
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(Replaced, TheUsersFilesAndLinksBesideItStay) {
  write_file(path("o.json.tmp"), "the user's");
  write_file(path("o.json"), "whole");
  EXPECT_EQ(read("o.json.tmp"), "the user's");
  fs::remove(path("o.json.tmp"));
  write_file(path("victim"), "the user's");
  fs::create_symlink("victim", path("o.json.tmp"));
  write_file(path("o.json"), "again");
  EXPECT_EQ(read("victim"), "the user's");
  EXPECT_EQ(files(), (Strings{"o.json", "o.json.tmp", "victim"}));
}

TEST_F(Replaced, EachWriterHasAFileOfItsOwnAndTheLastWholeOneStays) {
  Replacement first(path("a")), second(path("a"));
  first.write("fir");
  second.write("second");
  EXPECT_FALSE(fs::exists(path("a")));
  second.commit();
  EXPECT_EQ(read("a"), "second");
  first.write("st");
  first.commit();
  EXPECT_EQ(read("a"), "first");
  EXPECT_EQ(files(), Strings{"a"});
}

TEST_F(Replaced, IsOnTheDiskBeforeItHasItsName) {
  disk_calls.clear();
  write_file(path("a"), "whole");
  EXPECT_EQ(disk_calls, (Strings{"fsync", "rename", "fsync"})) << "the file, its name, and that";
  disk_calls.clear();
  write_file("/dev/null", "the control: no name is given");
  EXPECT_EQ(disk_calls, Strings{});
}

TEST_F(Replaced, WhatTheDiskDoesNotTakeLeavesTheFileOfBefore) {
  write_file(path("a"), "of before");
  disk_fails = true;
  const std::string error = error_of<DeviceError>([&] { write_file(path("a"), "lost"); });
  disk_fails = false;
  EXPECT_NE(error.find(path("a")), std::string::npos) << error;
  EXPECT_EQ(read("a"), "of before");
  EXPECT_EQ(files(), Strings{"a"});
}

TEST_F(Replaced, WithoutCommitNothingChanges) {
  write_file(path("a"), "old");
  {
    Replacement file(path("a"));
    file.write("new");
    EXPECT_EQ(files().size(), 2U);
  }
  EXPECT_EQ(read("a"), "old");
  EXPECT_EQ(files(), Strings{"a"});
}

TEST_F(Replaced, WhoMayReadItStays) {
  for (const int mode : {0600, 0640, 0755}) {
    write_file(path("a"), "old");
    ASSERT_EQ(::chmod(path("a").c_str(), static_cast<mode_t>(mode)), 0);
    Replacement file(path("a"));
    for (const std::string& name : files()) {
      EXPECT_EQ(this->mode(name), mode) << name << ", while it is written";
    }
    file.write("new");
    file.commit();
    EXPECT_EQ(this->mode("a"), mode);
    EXPECT_EQ(read("a"), "new");
  }
}

TEST_F(Replaced, ANewFileIsAsTheUmaskSays) {
  const mode_t before = ::umask(027);
  write_file(path("a"), "new");
  ::umask(before);
  EXPECT_EQ(mode("a"), 0640);
}

TEST_F(Replaced, LongNamesHaveRoomBesideThem) {
  const std::string name(255, 'n');
  write_file(path(name), "whole");
  EXPECT_EQ(files(), Strings{name});
  EXPECT_EQ(error_of<DeviceError>([&] { write_file(path(name + "n"), "x"); }),
            path(name + "n") + ": cannot write: File name too long");
}

TEST_F(Replaced, ASignalTakesAlongWhatIsNotWhole) {
  {
    const Replacement file(path("a"));
    Replacement kept(path("b"));
    kept.commit();
    EXPECT_EQ(files().size(), 2U);
    remove_temporaries();
    EXPECT_EQ(files(), Strings{"b"});
  }
  remove_temporaries();
  EXPECT_EQ(files(), Strings{"b"});
}

}  // namespace
}  // namespace tandem
