#include "core/text/files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/text/output_place.h"
#include "tests/core/error_of.h"
#include "tests/support/file_size_limit.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::error_of;

constexpr std::size_t kPlenty = 1'000'000;

/// Each test has a folder of its own.
class Files : public ::testing::Test {
 protected:
  Files() {
    std::string name = (fs::temp_directory_path() / "tandem-files-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path folder_;
};

TEST_F(Files, ReadBackWhatWasWritten) {
  std::string content(300'000, 'x');
  content[5] = '\0';
  write_file(path("a"), content);
  EXPECT_EQ(read_file(path("a"), kPlenty), content);
  write_file(path("a"), "");
  EXPECT_EQ(read_file(path("a"), kPlenty), "");
  EXPECT_FALSE(fs::exists(path("a.tmp")));
}

/// The superuser may read and write everything: for a while it is nobody.
class WithoutPrivileges {
 public:
  WithoutPrivileges() : was_root_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~WithoutPrivileges() { EXPECT_TRUE(!was_root_ || ::seteuid(0) == 0); }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;

 private:
  bool was_root_;
};

TEST_F(Files, SayWhatCannotBeRead) {
  EXPECT_EQ(error_of([] { read_file("no/such.json", kPlenty); }),
            "no/such.json: error: cannot open: No such file or directory");
  EXPECT_EQ(error_of([this] { read_file(folder_.string(), kPlenty); }),
            folder_.string() + ": error: cannot read: Is a directory");
  write_file(path("big"), std::string(3'000, 'x'));
  EXPECT_EQ(error_of([this] { read_file(path("big"), 2048); }),
            path("big") + ": error: larger than 2.0 KiB, the limit here");
  EXPECT_EQ(error_of([] { read_file("/dev/zero", kPlenty); }),
            "/dev/zero: error: larger than 976.6 KiB, the limit here");
}

TEST_F(Files, UnreadableOnesSayWhy) {
  write_file(path("secret"), "x");
  fs::permissions(path("secret"), fs::perms::none);
  const WithoutPrivileges nobody;
  EXPECT_EQ(error_of([this] { read_file(path("secret"), kPlenty); }),
            path("secret") + ": error: cannot open: Permission denied");
}

TEST_F(Files, SayWhatCannotBeWritten) {
  EXPECT_EQ(error_of<DeviceError>([this] { write_file(path("no/a"), "x"); }),
            path("no/a") + ": cannot write: No such file or directory");
  EXPECT_EQ(error_of<DeviceError>([this] { write_file(folder_.string(), "x"); }),
            folder_.string() + ": cannot write: Is a directory");
}

TEST_F(Files, UnwritableFoldersSayWhy) {
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  {
    const WithoutPrivileges nobody;
    EXPECT_EQ(error_of<DeviceError>([this] { write_file(path("a"), "x"); }),
              path("a") + ": cannot write: Permission denied");
  }
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(Files, ADiskThatFillsUpLeavesTheOldFile) {
  write_file(path("plan.json"), "old");
  {
    const testing::FileSizeLimit full(4096);
    EXPECT_EQ(
        error_of<DeviceError>([this] { write_file(path("plan.json"), std::string(9'999, 'x')); }),
        path("plan.json") + ": cannot write: File too large");
    EXPECT_EQ(error_of<DeviceError>([this] { write_file(path("new"), std::string(9'999, 'x')); }),
              path("new") + ": cannot write: File too large");
  }
  EXPECT_EQ(read_file(path("plan.json"), kPlenty), "old");
  EXPECT_EQ(files(), std::vector<std::string>{"plan.json"});
}

TEST_F(Files, AFullDeviceSaysSoAndStaysADevice) {
  EXPECT_EQ(error_of<DeviceError>([] { write_file("/dev/full", "x"); }),
            "/dev/full: cannot write: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Files, DevicesAndPipesAreWrittenDirectly) {
  write_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

/// A file open in this process, as a shell's redirect is.
class Redirect {
 public:
  Redirect(const std::string& path, int flags)
      : descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | flags, 0600)) {}
  ~Redirect() { ::close(descriptor_); }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;
  std::string name() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

TEST_F(Files, WhatAProcessHasOpenGoesOnWhereItIs) {
  for (const int flags : {O_APPEND, O_TRUNC}) {
    write_file(path("k"), "old ");
    const Redirect redirect(path("k"), flags);
    fs::remove(path("stdout"));
    fs::create_symlink(redirect.name(), path("stdout"));
    write_file(path("stdout"), "one ");
    write_file(path("stdout"), "two ");
    GrowingFile rows(path("stdout"));
    rows.keep(0);
    rows.write("three");
    EXPECT_EQ(read_file(path("k"), kPlenty),
              flags == O_APPEND ? "old one two three" : "one two three");
    EXPECT_TRUE(fs::is_symlink(path("stdout")));
    EXPECT_EQ(files(), (std::vector<std::string>{"k", "stdout"}));
  }
}

TEST_F(Files, APipeStaysOne) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDWR);
  ASSERT_GE(reader, 0);
  write_file(path("pipe"), "through");
  GrowingFile(path("pipe")).write(" it");
  std::string arrived(10, ' ');
  EXPECT_EQ(::read(reader, arrived.data(), arrived.size()), 10);
  EXPECT_EQ(arrived, "through it");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  ::close(reader);
}

TEST_F(Files, AGrowingOneIsOfOneWriter) {
  write_file(path("rows"), "kept cut");
  {
    GrowingFile first(path("rows"));
    EXPECT_EQ(error_of<DeviceError>([this] { GrowingFile second(path("rows")); }),
              path("rows") + ": another tandem is writing it");
    first.keep(4);
    first.write(" more");
  }
  EXPECT_EQ(read_file(path("rows"), kPlenty), "kept more");
  GrowingFile(path("rows")).write(" again");
  EXPECT_EQ(read_file(path("rows"), kPlenty), "kept more again");
  EXPECT_EQ(error_of<DeviceError>([] { GrowingFile("/dev/full").write("x"); }),
            "/dev/full: cannot write: No space left on device");
}

TEST_F(Files, ALinkToNoFileYetStaysALink) {
  fs::create_symlink("later", path("link"));
  write_file(path("link"), "made");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("later"), kPlenty), "made");
}

TEST_F(Files, KeepPermissionsAndLinks) {
  write_file(path("real"), "old");
  fs::permissions(path("real"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("real"), kPlenty), "new");
  EXPECT_EQ(fs::status(path("real")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Files, OneFileByWhateverName) {
  write_file(path("a"), "x");
  write_file(path("other"), "x");
  fs::create_hard_link(path("a"), path("hard"));
  fs::create_symlink("a", path("link"));
  fs::create_directory(path("folder"));
  for (const char* name : {"a", "./a", "folder/../a", "hard", "link"})
    EXPECT_TRUE(same_file(path("a"), path(name))) << name;
  for (const char* name : {"other", "none", "folder"})
    EXPECT_FALSE(same_file(path("a"), path(name))) << name;
  EXPECT_FALSE(same_file("/dev/null", "/dev/null"));
}

TEST_F(Files, OneFileThatIsToBe) {
  fs::create_symlink("later", path("link"));
  fs::create_directory(path("folder"));
  for (const char* name : {"later", "./later", "folder/../later", "link"})
    EXPECT_TRUE(same_file(path("later"), path(name))) << name;
  EXPECT_FALSE(same_file(path("later"), path("latest")));
  EXPECT_FALSE(same_file(path("later"), path("folder/later")));
}

}  // namespace
}  // namespace tandem
