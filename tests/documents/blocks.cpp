#include "tests/documents/blocks.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem::testing {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::string_view kPrompt = "$ ";

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

class BlockReader {
 public:
  BlockReader(std::string path, std::ptrdiff_t line, std::string_view info)
      : path_(std::move(path)) {
    block_.line = line;
    std::istringstream words{std::string(info)};
    bool language = !info.starts_with(' ');
    for (std::string word; words >> word; language = false) {
      language ? void(block_.language = word) : take_attribute(word);
    }
  }

  Block finish(std::vector<std::string> text) {
    block_.text = std::move(text);
    if (block_.language == "sh") {
      block_.commands.push_back(
          {block_.line + 1, fmt::format("{}", fmt::join(block_.text, "\n")), {}});
    } else if (block_.console()) {
      read_console();
    } else {
      expect_no_commands();
    }
    return std::move(block_);
  }

 private:
  void fault(std::ptrdiff_t line, const std::string& message) {
    block_.faults.push_back(fmt::format("{}:{}: error: {}", path_, line, message));
  }

  void take_attribute(const std::string& word) {
    const std::size_t equal = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equal),
                      value = word.substr(std::min(equal + 1, word.size()));
    if (word == "measured") {
      block_.measured = true;
    } else if (word == "needs=data") {
      block_.needs_data = true;
    } else if (name == "not-run" && contains(not_run_reasons(), value)) {
      block_.not_run = value;
    } else if (name == "not-run") {
      fault(block_.line, fmt::format("\"{}\" is no reason for not being run: {}", value,
                                     fmt::join(not_run_reasons(), ", ")));
    } else if (name != "exit" ||
               std::from_chars(value.data(), value.data() + value.size(), block_.exit_code).ptr !=
                   value.data() + value.size()) {
      fault(block_.line, fmt::format("\"{}\" says nothing of a block", word));
    }
  }

  void read_console() {
    bool continued = false;
    std::ptrdiff_t line = block_.line;
    for (const std::string& text : block_.text) {
      ++line;
      if (continued) {
        block_.commands.back().command += "\n" + text;
      } else if (text.starts_with(kPrompt)) {
        block_.commands.push_back({line, text.substr(kPrompt.size()), {}});
      } else if (block_.commands.empty()) {
        fault(line, "output of no command");
      } else {
        block_.commands.back().shown.push_back(text);
      }
      const bool command = !block_.commands.empty() && block_.commands.back().shown.empty();
      continued = command && text.ends_with('\\');
    }
    if (block_.commands.empty()) fault(block_.line, "a console block shows a command: $ ...");
  }

  /// Commands that no language marks would never be run.
  void expect_no_commands() {
    static const std::regex kCommand(
        R"(^(\$ .*|(tandem|cmake|ctest|git|time|sudo) .*|tools/(demo|test|scripts/\w+)\b.*))");
    std::ptrdiff_t line = block_.line;
    for (const std::string& text : block_.text) {
      ++line;
      if (std::regex_match(text, kCommand))
        fault(line, "a command: its block begins with ```sh, or with ```console and \"$ \"");
    }
  }

  std::string path_;
  Block block_;
};

Block faulty(const std::string& path, std::ptrdiff_t line, const std::string& message) {
  Block block;
  block.line = line;
  block.faults.push_back(fmt::format("{}:{}: error: {}", path, line, message));
  return block;
}

}  // namespace

const std::vector<std::string>& not_run_reasons() {
  static const std::vector<std::string> all = {"needs-a-GPU", "needs-hours", "installs-packages",
                                               "another-machine"};
  return all;
}

std::string read_page(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of_page(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<Block> blocks_of(const std::string& path, std::string_view page) {
  std::vector<Block> blocks;
  std::vector<std::string> text;
  std::string info;
  std::ptrdiff_t number = 0, open = 0;
  for (const std::string& line : lines_of_page(page)) {
    ++number;
    if (open == 0 && line.starts_with(kFence)) {
      open = number;
      info = line.substr(kFence.size());
    } else if (open != 0 && line == kFence) {
      blocks.push_back(BlockReader(path, open, info).finish(std::move(text)));
      text.clear();
      open = 0;
    } else if (open != 0) {
      text.push_back(line);
    } else if (std::string_view(line)
                   .substr(std::min(line.find_first_not_of(' '), line.size()))
                   .starts_with(kFence)) {
      blocks.push_back(faulty(path, number, "a fence begins its line"));
    }
  }
  if (open != 0) blocks.push_back(faulty(path, open, "a block without end"));
  return blocks;
}

}  // namespace tandem::testing
