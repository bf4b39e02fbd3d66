#include "traces/chrome/atomic_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tests/support/file_size_limit.h"
#include "tests/traces/trace_files.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

template <class Action>
std::string device_error_of(Action action) {
  try {
    action();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AtomicFile, AppearsWholeAndReplacesTheOld) {
  const Folder folder;
  std::ofstream(folder / "a.json") << "old";
  AtomicFile file(folder / "a.json");
  file.write("new ");
  file.write("text");
  EXPECT_EQ(text_of(folder / "a.json"), "old");
  file.finish();
  EXPECT_EQ(text_of(folder / "a.json"), "new text");
}

TEST(AtomicFile, LeavesNothingBehindWhenNotFinished) {
  const Folder folder;
  for (const char* name : {"a.json", "a.json.gz"}) {
    AtomicFile file(folder / name);
    file.write(std::string(1 << 16, 'x'));
  }
  EXPECT_TRUE(folder.empty());
}

TEST(AtomicFile, SaysWhyItCannotBeOpened) {
  const Folder folder;
  const auto path = folder / "absent" / "a.json";
  EXPECT_THAT(device_error_of([&] { AtomicFile file(path); }),
              HasSubstr(path.string() + ": cannot write: No such file or directory"));
}

TEST(AtomicFile, LeavesNothingOnAFullDisk) {
  const Folder folder;
  const FileSizeLimit full(4096);
  for (const char* name : {"a.json", "a.json.gz"}) {
    const std::string message = device_error_of([&] {
      AtomicFile file(folder / name);
      std::string noise;
      for (std::uint32_t i = 1; i < 1 << 22; ++i) noise += static_cast<char>(i * 2654435761U >> 24);
      file.write(noise);
      file.finish();
    });
    EXPECT_THAT(message, HasSubstr("cannot write: File too large")) << name;
    EXPECT_TRUE(folder.empty()) << name;
  }
}

TEST(AtomicFile, ReportsAFullDiskEvenWhenOnlyClosingShowsIt) {
  const Folder folder;
  const FileSizeLimit full(4);
  const std::string message = device_error_of([&] {
    AtomicFile file(folder / "a.json.gz");
    file.write("short enough to stay in the buffer");
    file.finish();
  });
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_TRUE(folder.empty());
}

TEST(AtomicFile, KeepsLinksAndWhatAProcessHasOpen) {
  const Folder folder;
  std::ofstream(folder / "real") << "old";
  fs::create_symlink("real", folder / "link");
  AtomicFile replaced(folder / "link");
  replaced.write("new ");
  replaced.finish();
  EXPECT_EQ(text_of(folder / "real"), "new ");
  const int open = ::open((folder / "real").c_str(), O_WRONLY | O_APPEND);
  fs::create_symlink("/proc/self/fd/" + std::to_string(open), folder / "stdout");
  AtomicFile added(folder / "stdout");
  added.write("and more");
  added.finish();
  ::close(open);
  EXPECT_EQ(text_of(folder / "real"), "new and more");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "stdout"));
}

TEST(AtomicFile, WritesToADeviceDirectly) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  AtomicFile null("/dev/null");
  null.write("gone");
  null.finish();
  const std::string message = device_error_of([&] {
    AtomicFile full("/dev/full");
    full.write("x");
  });
  EXPECT_THAT(message, HasSubstr("/dev/full: cannot write: No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace tandem::testing
