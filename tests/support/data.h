#pragma once
// Tests of published data that the project does not ship. TANDEM_DATA names its folder:
//
//   class VggProfile : public DataTest {};
//   TEST_F(VggProfile, Parses) { read_graph(data_path("profiles/vgg16.graph.txt")); }
//
// Without TANDEM_DATA a DataTest is skipped and says so; with TANDEM_REQUIRE_DATA=1 too (continuous
// integration) it fails, so that no such test goes missing unseen.

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <gtest/gtest.h>

namespace tandem::testing {

// The path of a published file; a file that is not in the folder fails the test.
inline std::filesystem::path data_path(std::string_view relative) {
  const char* folder = std::getenv("TANDEM_DATA");
  const std::filesystem::path path = std::filesystem::path(folder ? folder : "") / relative;
  EXPECT_TRUE(std::filesystem::exists(path)) << path << " is not there: is TANDEM_DATA its folder?";
  return path;
}

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TANDEM_DATA") != nullptr) {
      return;
    }
    const char* required = std::getenv("TANDEM_REQUIRE_DATA");
    if (required != nullptr && std::string_view(required) == "1") {
      FAIL() << "TANDEM_REQUIRE_DATA=1, but TANDEM_DATA is not set";
    }
    GTEST_SKIP() << "TANDEM_DATA is not set";
  }
};

}  // namespace tandem::testing
