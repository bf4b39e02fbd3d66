#include "tests/support/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

std::filesystem::path golden_folder() { return source_folder() / "tests/golden"; }

std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream left(expected), right(actual);
  std::string wanted, got;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(left, wanted));
    const bool more_right = static_cast<bool>(std::getline(right, got));
    if (!more_left && !more_right) return "they differ in the last line's end only";
    if (more_left != more_right || wanted != got) {
      return fmt::format("line {}:\n  expected {}\n  got      {}", line,
                         more_left ? wanted : "(end)", more_right ? got : "(end)");
    }
  }
}

}  // namespace

void expect_golden(std::string_view name, const std::string& text) {
  const std::filesystem::path path = golden_folder() / name;
  const char* update = std::getenv("UPDATE");
  if (update != nullptr && std::string_view(update) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    ADD_FAILURE() << path << " is missing; UPDATE=1 writes it. It would hold:\n" << text;
    return;
  }
  const std::string expected{std::istreambuf_iterator<char>(file),
                             std::istreambuf_iterator<char>()};
  if (expected == text) return;
  ADD_FAILURE() << path << " differs (UPDATE=1 rewrites it), " << first_difference(expected, text)
                << "\nthe whole of what was got:\n"
                << text;
}

}  // namespace tandem::testing
