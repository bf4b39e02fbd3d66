#pragma once
// Files for tests of traces: a folder that goes with the test, and traces as text.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/program/program.h"
#include "core/program/timeline.h"
#include "traces/chrome/chrome_trace.h"

namespace tandem::testing {

/// An empty folder of its own for one test.
class Folder {
 public:
  Folder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("tandem-" + std::to_string(::getpid()) + "-" + test->test_suite_name() + "-" +
             test->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The trace of one timeline, as text.
inline std::string trace_text(const Program& program, const Timeline& timeline,
                              const TraceOptions& options = {}) {
  const Folder folder;
  const TraceRun run{.timeline = &timeline};
  write_chrome_trace(folder / "trace.json", program, {&run, 1}, options);
  return text_of(folder / "trace.json");
}

}  // namespace tandem::testing
