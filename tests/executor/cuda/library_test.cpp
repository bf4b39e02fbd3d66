// Libraries that lie in packages of Python are found there, and nowhere else.

#include "executor/cuda/runtime/library.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_command.h"

namespace tandem::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class LibraryPlaces : public ::testing::Test {
 protected:
  fs::path make(const fs::path& file) const {
    const fs::path whole = folder_.path() / file;
    fs::create_directories(whole.parent_path());
    std::ofstream(whole) << "\n";
    return whole;
  }
  fs::path at(const fs::path& path) const { return folder_.path() / path; }

 private:
  tandem::testing::TemporaryFolder folder_;
};

TEST_F(LibraryPlaces, AreInNvidiasPackagesAndInPyTorch) {
  const fs::path wheel = make("site-packages/nvidia/cu13/lib/libcublasLt.so.13");
  const fs::path torch = make("site-packages/torch/lib/libcublasLt.so.13");
  make("site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  make("site-packages/other/lib/libcublasLt.so.13");
  const std::vector<fs::path> packages{at("site-packages"), at("nowhere"), at("site-packages")};
  EXPECT_THAT(places_in_packages("libcublasLt.so.13", packages),
              ElementsAre(wheel.string(), torch.string()));
  EXPECT_THAT(places_in_packages("libcublasLt.so.12", packages), IsEmpty());
}

TEST_F(LibraryPlaces, PackagesAreThoseOfTheEnvironmentAndOfTheFirstPython) {
  make("venv/lib/python3.12/site-packages/x");
  make("opt/lib64/python3.11/site-packages/x");
  make("opt/bin/python3");
  make("later/lib/python3.9/site-packages/x");
  make("later/bin/python3");
  make("opt/lib/ruby/site-packages/x");
  const std::string path =
      at("empty").string() + "::" + at("opt/bin").string() + ":" + at("later/bin").string();
  const std::vector<fs::path> found = python_packages(at("venv"), path);
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0], at("venv/lib/python3.12/site-packages"));
  EXPECT_EQ(found[1], at("opt/lib64/python3.11/site-packages"));
  EXPECT_THAT(found, Not(Contains(at("later/lib/python3.9/site-packages"))));
}

TEST_F(LibraryPlaces, PackagesAreThoseOfAPythonThatIsALink) {
  make("real/lib/python3.13/site-packages/x");
  make("real/bin/python3.13");
  fs::create_directories(at("bin"));
  fs::create_symlink(at("real/bin/python3.13"), at("bin/python3"));
  EXPECT_THAT(python_packages("", at("bin")), Contains(at("real/lib/python3.13/site-packages")));
}

TEST_F(LibraryPlaces, BeginWithWhatTheSystemFindsByItself) {
  EXPECT_EQ(library_places("libthat_is_not.so.7").front(), "libthat_is_not.so.7");
}

TEST_F(LibraryPlaces, AreWhereTheEnvironmentSays) {
  const std::string home = at("nccl"), place = home + "/lib/libthat_is_not.so.7";
  EXPECT_THAT(library_places("libthat_is_not.so.7", {"THAT_HOME"}), Not(Contains(place)));
  setenv("THAT_HOME", home.c_str(), 1);
  const std::vector<std::string> places = library_places("libthat_is_not.so.7", {"THAT_HOME"});
  unsetenv("THAT_HOME");
  EXPECT_THAT(places, Contains(place));
}

}  // namespace
}  // namespace tandem::cuda
