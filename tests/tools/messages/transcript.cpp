#include "tests/tools/messages/transcript.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <stdexcept>

#include <fmt/format.h>

#include "core/schedule/options.h"
#include "tests/support/run_command.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;
using Kind = Step::Kind;

std::vector<std::string> lines_of_text(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Reads a golden file line by line.
class TranscriptParser {
 public:
  TranscriptParser(std::string_view name, std::string_view text, bool unfinished)
      : name_(name), lines_(lines_of_text(text)), unfinished_(unfinished) {}

  std::vector<Step> parse() {
    std::vector<Step> steps;
    while (at_ < lines_.size()) steps.push_back(step());
    return steps;
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view why) const {
    throw std::invalid_argument(fmt::format("{}:{}: {}", name_, at + 1, why));
  }

  Step step() {
    Step step;
    step.line = static_cast<int>(at_) + 1;
    const std::string& line = step.source = lines_[at_];
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space);
    const std::string rest = line.substr(std::min(space + 1, line.size()));
    ++at_;
    if (line.empty()) return step;
    if (rest.empty()) fail(at_ - 1, fmt::format("\"{}\" needs more words", line));
    if (word == "#") {
      step.kind = Kind::title;
    } else if (word == "$") {
      command(step, rest);
    } else if (word == "file") {
      file(step, rest);
    } else if (word == "copy") {
      const std::size_t second = rest.find(' ');
      if (second == std::string::npos) fail(at_ - 1, "expected copy PATH NAME");
      step.kind = Kind::copy;
      step.part = rest.substr(0, second);
      step.name = rest.substr(second + 1);
    } else if (word == "edit") {
      edit(step, rest);
    } else if (word == "mask") {
      step.kind = Kind::mask;
      step.part = rest;
    } else {
      fail(at_ - 1,
           fmt::format("expected #, $, file, copy, edit, mask or an empty line, found \"{}\"",
                       line));
    }
    return step;
  }

  void file(Step& step, const std::string& name) {
    step.kind = Kind::file;
    step.name = name;
    for (; at_ < lines_.size() && lines_[at_].starts_with("  "); ++at_) {
      step.content += lines_[at_].substr(2) + "\n";
      step.source += "\n" + lines_[at_];
    }
  }

  void edit(Step& step, const std::string& rest) const {
    const std::size_t colon = rest.find(": "), arrow = rest.find(" => ");
    if (colon == std::string::npos || arrow == std::string::npos || arrow < colon)
      fail(at_ - 1, "expected edit NAME: PART => INSTEAD");
    step.kind = Kind::edit;
    step.name = rest.substr(0, colon);
    step.part = rest.substr(colon + 2, arrow - colon - 2);
    step.content = rest.substr(arrow + 4);
  }

  void command(Step& step, const std::string& line) {
    step.kind = Kind::command;
    step.words = words(line);
    if (step.words.front() != "tandem") fail(at_ - 1, "expected $ tandem ...");
    step.words.erase(step.words.begin());
    if (step.words.size() >= 2 && step.words[step.words.size() - 2] == ">") {
      step.name = step.words.back();
      step.words.resize(step.words.size() - 2);
    }
    const auto begins = [&](std::string_view start) { return lines_[at_].starts_with(start); };
    constexpr std::string_view kNext[]{"$ ", "# ", "file ", "copy ", "edit ", "mask "};
    if (at_ == lines_.size() || lines_[at_].empty() ||
        std::any_of(kNext, std::end(kNext), begins)) {
      if (!unfinished_) fail(at_ - 1, "what the command prints, and [exit N], are missing");
      return;
    }
    static const std::regex kExit(R"(\[exit [0-9]+\])");
    for (; at_ < lines_.size(); ++at_) {
      step.printed += lines_[at_] + "\n";
      if (!begins("[exit")) continue;
      if (!std::regex_match(lines_[at_], kExit)) fail(at_, "expected [exit N]");
      ++at_;
      return;
    }
    fail(static_cast<std::size_t>(step.line) - 1, "no [exit N] ends what the command prints");
  }

  /// Cut at spaces, but not between single quotes.
  std::vector<std::string> words(const std::string& line) const {
    std::vector<std::string> words;
    bool quoted = false, open = false;
    for (const char c : line) {
      if (c == '\'') {
        quoted = !quoted;
      } else if (c == ' ' && !quoted) {
        open = false;
        continue;
      }
      if (!open) words.emplace_back();
      open = true;
      if (c != '\'') words.back() += c;
    }
    if (quoted) fail(at_ - 1, "a quote is not closed");
    return words;
  }

  std::string_view name_;
  std::vector<std::string> lines_;
  bool unfinished_;
  std::size_t at_ = 0;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("no file {}", path.string()));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Lines that go are marked with -, lines that come with +.
std::string diff(const std::string& before, const std::string& after) {
  const std::vector<std::string> left = lines_of_text(before), right = lines_of_text(after);
  // Of what remains of both, how many lines are common at most.
  std::vector<std::vector<int>> common(left.size() + 1, std::vector<int>(right.size() + 1, 0));
  for (std::size_t i = left.size(); i-- > 0;) {
    for (std::size_t j = right.size(); j-- > 0;) {
      common[i][j] = left[i] == right[j] ? 1 + common[i + 1][j + 1]
                                         : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string text;
  for (std::size_t i = 0, j = 0; i < left.size() || j < right.size();) {
    if (i < left.size() && j < right.size() && left[i] == right[j]) {
      text += "  " + left[i++] + "\n";
      ++j;
    } else if (j == right.size() || (i < left.size() && common[i + 1][j] >= common[i][j + 1])) {
      text += "- " + left[i++] + "\n";
    } else {
      text += "+ " + right[j++] + "\n";
    }
  }
  return text;
}

bool is_row_of(std::string_view line, std::string_view flag) {
  const std::string start = fmt::format("  --{}", flag);
  const std::string_view rest = line.substr(std::min(start.size(), line.size()));
  return line.starts_with(start) && (rest.empty() || rest.front() == ' ' || rest.front() == '[');
}

/// Runs the steps of one title.
class TranscriptRunner {
 public:
  TranscriptRunner() { begin(); }

  void begin() {
    folder_ = std::make_unique<TemporaryFolder>();
    fs::copy(source_folder() / "tests/tools/files", folder_->path());
    masks_.clear();
  }

  /// What is printed; empty for what is no command.
  std::string run(const Step& step) {
    const fs::path file = folder_->path() / step.name;
    if (step.kind == Kind::title) begin();
    if (step.kind == Kind::file) write_file(file, step.content);
    if (step.kind == Kind::copy) fs::copy_file(source_folder() / step.part, file);
    if (step.kind == Kind::mask) masks_.emplace_back(step.part);
    if (step.kind == Kind::edit) {
      std::string text = read_file(file);
      const std::size_t at = text.find(step.part);
      if (at == std::string::npos)
        throw std::runtime_error(fmt::format("{} has no {}", step.name, step.part));
      write_file(file, text.replace(at, step.part.size(), step.content));
    }
    return step.kind == Kind::command ? command(step) : "";
  }

 private:
  std::string command(const Step& step) const {
    std::vector<std::string> words{TANDEM_BINARY};
    words.insert(words.end(), step.words.begin(), step.words.end());
    RunOptions options;
    options.folder = folder_->path();
    Ran ran = run_command(words, options);
    if (!step.name.empty()) {
      if (step.name != "/dev/null") write_file(folder_->path() / step.name, ran.out);
      ran.out.clear();
    }
    const auto shown = [&](const std::string& text) {
      std::string masked = without_options_of_schedules(text);
      for (const std::regex& mask : masks_) masked = std::regex_replace(masked, mask, "***");
      return text.empty() || text.ends_with('\n') ? masked : masked + "[no newline]\n";
    };
    return shown(ran.err) + (ran.out.empty() ? "" : "[stdout]\n" + shown(ran.out)) +
           fmt::format("[exit {}]\n", ran.code);
  }

  std::unique_ptr<TemporaryFolder> folder_;
  std::vector<std::regex> masks_;
};

}  // namespace

std::string without_options_of_schedules(const std::string& help) {
  std::vector<std::string> flags;
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.of_all) flags.emplace_back(option.flag);
  }
  const std::vector<std::string> lines = lines_of_text(help);
  const auto stands = [&](const std::string& flag) {
    return std::ranges::any_of(lines, [&](const auto& line) { return is_row_of(line, flag); });
  };
  if (!help.starts_with("usage: ") || !std::ranges::all_of(flags, stands)) return help;
  std::string text;
  bool left_out = false;  // the row, and the lines that go on with its help
  for (const std::string& line : lines) {
    left_out =
        line.starts_with("   ")
            ? left_out
            : std::ranges::any_of(flags, [&](const auto& flag) { return is_row_of(line, flag); });
    if (!left_out) text += line + "\n";
  }
  return text;
}

std::vector<Step> parse_transcript(std::string_view name, std::string_view text, bool unfinished) {
  return TranscriptParser(name, text, unfinished).parse();
}

Replayed replay_transcript(std::string_view name, const std::vector<Step>& steps) {
  Replayed replayed;
  TranscriptRunner runner;
  for (const Step& step : steps) {
    std::string printed;
    try {
      printed = runner.run(step);
    } catch (const std::exception& fault) {
      throw std::runtime_error(fmt::format("{}:{}: {}", name, step.line, fault.what()));
    }
    replayed.text += step.source + "\n" + printed;
    if (printed != step.printed) {
      replayed.differences +=
          fmt::format("{}:{}: {}\n{}", name, step.line, step.source, diff(step.printed, printed));
    }
  }
  return replayed;
}

}  // namespace tandem::testing
