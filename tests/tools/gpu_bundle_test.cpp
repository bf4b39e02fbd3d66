// What tools/scripts/gpu_bundle checks of a bundle, and how gpu_check ends where there is no GPU.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_command.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const fs::path kSources = source_folder();

Ran check(const fs::path& folder) {
  return run_command(
      {(kSources / "tools/scripts/gpu_bundle").string(), "--check", folder.string()});
}

class GpuBundle : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* needed : {"/usr/bin/readelf", "/usr/bin/objdump"}) {
      if (!fs::exists(needed)) GTEST_SKIP() << "no " << needed;
    }
    // Of what needs glibc alone.
    fs::copy_file("/bin/true", folder_.path() / "program");
  }
  TemporaryFolder folder_;
};

TEST_F(GpuBundle, IsGoodWithProgramsThatNeedGlibcAlone) {
  const Ran ran = check(folder_.path());
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(": 1 programs, 1 of at most 40 MiB"));
}

TEST_F(GpuBundle, MustNotBeLarge) {
  std::ofstream(folder_.path() / "large").close();
  fs::resize_file(folder_.path() / "large", std::uintmax_t{40} << 20);
  const Ran ran = check(folder_.path());
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("41 MiB, more than 40"));
}

TEST_F(GpuBundle, MustNotNeedLibrariesThatAreNotInIt) {
  // This build's own is linked to shared libraries.
  fs::copy_file(TANDEM_BINARY, folder_.path() / "tandem");
  const Ran ran = check(folder_.path());
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("libstdc++.so.6"));
}

TEST_F(GpuBundle, MustHaveAProgram) {
  fs::remove(folder_.path() / "program");
  EXPECT_THAT(check(folder_.path()).err, HasSubstr("has no program"));
  EXPECT_EQ(check(folder_.path() / "nowhere").code, 1);
}

TEST_F(GpuBundle, ThatWasMadeIsGood) {
  const fs::path made = kSources / "build/gpu_bundle";
  if (!fs::exists(made)) GTEST_SKIP() << "there is none: tools/scripts/gpu_bundle makes it";
  const Ran ran = check(made);
  EXPECT_EQ(ran.code, 0) << ran.err;
}

Ran gpu_check(const std::string& option, const std::string& value) {
  return run_command({"/usr/bin/env",
                      "TANDEM_BUILD=" + fs::path(TANDEM_BINARY).parent_path().string(),
                      (kSources / "tools/scripts/gpu_check").string(), option, value});
}

TEST(GpuCheck, EndsWithFiveWhereThereIsNoGpu) {
  const Ran doctor = run_command({TANDEM_BINARY, "doctor", "--json"});
  if (doctor.out.find("\"backend_cuda\": \"yes\"") != std::string::npos)
    GTEST_SKIP() << "there is a GPU";
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "output";
  const Ran ran = gpu_check("--output", output.string());
  EXPECT_EQ(ran.code, 5) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("gpu_check: no GPU: "));
  EXPECT_FALSE(fs::exists(output));
}

TEST(GpuCheck, KnowsItsOptions) {
  EXPECT_EQ(gpu_check("--nothing", "").code, 2);
  EXPECT_EQ(gpu_check("--backend", "tpu").code, 2);
}

}  // namespace
}  // namespace tandem::testing
