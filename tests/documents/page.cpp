#include "tests/documents/page.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/documents/blocks.h"
#include "tests/documents/shown_output.h"
#include "tests/support/run_command.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;

/// The checkout by links, but build/, which is empty but for the binary and published data.
class Root {
 public:
  explicit Root(const fs::path& tandem) {
    for (const auto& entry : fs::directory_iterator(source_folder())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with('.') && name != "build") link(entry.path(), name);
    }
    fs::create_directories(path() / "build/release");
    link(tandem, "build/release/tandem");
    if (const char* data = std::getenv("TANDEM_DATA")) {
      for (const auto& entry : fs::directory_iterator(data)) {
        if (entry.is_directory()) link(entry.path(), "build" / entry.path().filename());
      }
    }
  }

  const fs::path& path() const { return folder_.path(); }

  /// Both streams in `out`, in the order in which they were written.
  Ran run(const std::string& command) const {
    const char* search = std::getenv("PATH");
    RunOptions options;
    options.folder = path();
    options.timeout = std::chrono::seconds(120);
    return run_command(
        {"/usr/bin/env",
         fmt::format("PATH={}:{}", (path() / "build/release").string(), search ? search : ""),
         "/bin/bash", "-e", "-o", "pipefail", "-c", "exec 2>&1\n" + command},
        options);
  }

 private:
  void link(const fs::path& target, const fs::path& name) const {
    fs::create_symlink(target, path() / name);
  }

  TemporaryFolder folder_;
};

class PageRun {
 public:
  PageRun(const std::string& path, const std::string& page, const fs::path& tandem)
      : path_(path), lines_(lines_of_page(page)), root_(tandem) {
    result_.text = page;
  }

  PageResult run() {
    for (const Block& block : blocks_of(path_, result_.text)) {
      result_.failures.insert(result_.failures.end(), block.faults.begin(), block.faults.end());
      if (!block.runs()) continue;
      if (block.needs_data && std::getenv("TANDEM_DATA") == nullptr) {
        result_.left_out.push_back(fmt::format("{}:{}", path_, block.line));
        continue;
      }
      for (const ShownCommand& command : block.commands) {
        check(block, command, &command == &block.commands.back() ? block.exit_code : 0);
      }
    }
    rewrite();
    return std::move(result_);
  }

 private:
  std::string message(const ShownCommand& command, const std::string& what) const {
    return fmt::format("{}:{}: error: {}\n{}", path_, command.line, what, command.command);
  }
  void fail(const ShownCommand& command, const std::string& what) {
    result_.failures.push_back(message(command, what));
  }

  void check(const Block& block, const ShownCommand& command, int code) {
    const Ran ran = root_.run(command.command);
    if (ran.timed_out) return fail(command, "takes longer than a page's command may");
    if (ran.code != code)
      return fail(command, fmt::format("exit code {} instead of {}:\n{}", ran.code, code, ran.out));
    if (!block.console()) return;
    const Numbers numbers = block.measured ? Numbers::by_shape : Numbers::exact;
    const Lines printed = lines_of_page(ran.out);
    const std::string differs = difference(command.shown, printed, numbers);
    if (differs.empty()) return;
    result_.differences.push_back(message(command, differs));
    changes_.push_back({command, rewritten(command.shown, printed, numbers)});
  }

  /// From the end to the start, so that lines stay where they are until they are changed.
  void rewrite() {
    if (changes_.empty()) return;
    std::reverse(changes_.begin(), changes_.end());
    for (const auto& [command, instead] : changes_) {
      const auto first = lines_.begin() + command.line +
                         std::count(command.command.begin(), command.command.end(), '\n');
      const auto at =
          lines_.erase(first, first + static_cast<std::ptrdiff_t>(command.shown.size()));
      lines_.insert(at, instead.begin(), instead.end());
    }
    result_.text = fmt::format("{}\n", fmt::join(lines_, "\n"));
  }

  std::string path_;
  Lines lines_;
  Root root_;
  PageResult result_;
  std::vector<std::pair<ShownCommand, Lines>> changes_;
};

}  // namespace

PageResult run_page(const std::string& path, const std::string& page, const fs::path& tandem) {
  return PageRun(path, page, tandem).run();
}

}  // namespace tandem::testing
