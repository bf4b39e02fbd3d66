#include "tools/cli/memory_limit.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/run_command.h"

namespace tandem::tools {
namespace {

namespace fs = std::filesystem;

/// A root folder as the kernel shows one.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_.path() / path).parent_path());
    std::ofstream(root_.path() / path) << text;
  }
  const fs::path& root() const { return root_.path(); }
  std::optional<Bytes> limit() const { return group_memory_limit(root_.path()); }

 private:
  testing::TemporaryFolder root_;
};

TEST_F(ControlGroups, NoneSetsNoLimit) {
  EXPECT_EQ(limit(), std::nullopt);
  write("proc/self/cgroup", "0::/user/job\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("sys/fs/cgroup/user/job/memory.max", "max\n");
  EXPECT_EQ(limit(), std::nullopt);
}

TEST_F(ControlGroups, TheTightestOfThoseAroundItCounts) {
  write("proc/self/cgroup", "0::/user/job\n");
  write("sys/fs/cgroup/user/job/memory.max", "3000\n");
  EXPECT_EQ(limit(), 3000);
  write("sys/fs/cgroup/user/memory.max", "2000\n");
  write("sys/fs/cgroup/memory.max", "4000\n");
  EXPECT_EQ(limit(), 2000);
  write("sys/fs/cgroup/other/memory.max", "1000\n");
  EXPECT_EQ(limit(), 2000);
}

TEST_F(ControlGroups, OfTheFirstVersionToo) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/job\n4:hugetlb,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/cpu/job/memory.limit_in_bytes", "7\n");
  EXPECT_EQ(limit(), 9223372036854771712);
  // A container sees its own group as the root of all.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(limit(), 5000);
}

TEST_F(ControlGroups, WhatTheMachineHasLeftIsNotWhatIsFree) {
  EXPECT_EQ(available_memory(root()), std::nullopt);
  write("proc/meminfo", "MemTotal: 100 kB\nMemFree: 10 kB\n");
  EXPECT_EQ(available_memory(root()), std::nullopt) << "an old kernel does not say";
  write("proc/meminfo",
        "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable:   70 kB\nSwapFree: 9 kB\n");
  EXPECT_EQ(available_memory(root()), 70 * 1024);
}

}  // namespace
}  // namespace tandem::tools
