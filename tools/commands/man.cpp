// tandem man [COMMAND]: manual pages (troff, man(7)), made from the rows that --help shows.

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/files.h"
#include "tools/cli/completion.h"
#include "tools/cli/json_output.h"
#include "tools/cli/machine.h"
#include "tools/cli/options.h"
#include "tools/cli/split.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

/// troff's name of a character beyond ASCII.
std::string troff_character(std::string_view bytes) {
  std::uint32_t code = static_cast<unsigned char>(bytes[0]) & (0xFFu >> (bytes.size() + 1));
  for (const char byte : bytes.substr(1))
    code = (code << 6) | (static_cast<unsigned char>(byte) & 0x3Fu);
  return fmt::format("\\[u{:04X}]", code);
}

std::string troff_ascii(char c) {
  constexpr std::pair<char, std::string_view> kNames[] = {
      {'\\', "\\(rs"}, {'-', "\\-"},   {'\'', "\\(aq"}, {'"', "\\(dq"},
      {'`', "\\(ga"},  {'^', "\\(ha"}, {'~', "\\(ti"}};
  const auto* const found = std::ranges::find(kNames, c, [](const auto& row) { return row.first; });
  return found == std::end(kNames) ? std::string{c} : std::string(found->second);
}

/// As troff takes it: no character of it is a command, a hyphen is a minus sign.
std::string troff(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = std::max<std::size_t>(character_size(text), 1);
    result += size == 1 ? troff_ascii(text[0]) : troff_character(text.substr(0, size));
    text.remove_prefix(size);
  }
  return (result.starts_with('.') ? "\\&" : "") + result;
}

std::string page_head(std::string_view page, std::string_view summary) {
  std::string title(page);
  std::transform(title.begin(), title.end(), title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return fmt::format(".TH {} 1 \"\" \"{}\" \"\"\n.SH NAME\n{} \\- {}\n", troff(title), tool_name(),
                     troff(page), troff(summary));
}

/// `text` as paragraphs, one a line.
std::string paragraphs(std::string_view text) {
  std::string result;
  for (const std::string_view line : split(text, "\n"))
    result += (result.empty() ? "" : ".PP\n") + troff(line) + "\n";
  return result;
}

std::string option_text(const Options::Row& row) {
  std::string names =
      row.letter.empty() ? "" : fmt::format("\\fB\\-{}\\fR, ", row.letter.substr(1));
  names += fmt::format("\\fB{}\\fR", troff("--" + row.name));
  if (!row.argument.empty()) names += fmt::format(" \\fI{}\\fR", troff(row.argument));
  if (row.argument.empty() && row.list) names += "[=\\fIyes\\fR|\\fIno\\fR]";
  return fmt::format(".TP\n{}\n{}", names, paragraphs(row.help.empty() ? " " : row.help));
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes)
    text += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(code), troff(meaning));
  return text;
}

/// "tandem-sweep-merge".
std::string page_name(const Command& command) {
  std::string name = fmt::format("tandem-{}", command.name);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

/// The page of a command, tandem-NAME(1).
std::string manual_page(const Command& command) {
  const Options options = command.options();
  std::string text = page_head(page_name(command), command.summary);
  text += fmt::format(".SH SYNOPSIS\n.B {}\n{}\n.SH DESCRIPTION\n{}.SH OPTIONS\n",
                      troff(fmt::format("tandem {}", command.name)), troff(options.usage()),
                      paragraphs(options.summary()));
  const std::vector<std::string> groups = options.groups();
  for (const std::string& group : groups) {
    if (groups.size() > 1) text += fmt::format(".SS {}\n", troff(group));
    for (const Options::Row& row : options.rows()) {
      if (row.group == group) text += option_text(row);
    }
  }
  return text + exit_status() + ".SH SEE ALSO\n.BR tandem (1)\n";
}

/// That of tandem itself, which lists them.
std::string manual_page() {
  std::string text = page_head("tandem", "pipeline-parallel training, simulated and for real");
  text += fmt::format(
      ".SH SYNOPSIS\n.B tandem\n.I COMMAND\n[options]\n.SH DESCRIPTION\n{}\n"
      ".PP\n\\fBtandem help \\fICOMMAND\\fR shows the options of a command. Results are printed "
      "on stdout, everything else on stderr.\n.SH COMMANDS\n",
      troff(kAbout));
  for (const Command& command : commands())
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", troff(page_name(command)), troff(command.summary));
  return text + exit_status();
}

struct Page {
  std::string file, text;
};

Page page_of(const Command& command) { return {page_name(command) + ".1", manual_page(command)}; }

std::vector<Page> pages_of(const Options& options) {
  std::vector<Page> pages{{"tandem.1", manual_page()}};
  if (options.has("output")) {
    for (const Command& command : commands()) pages.push_back(page_of(command));
  }
  if (options.words().empty()) return pages;
  const std::string name = fmt::format("{}", fmt::join(options.words(), " "));
  for (const Command& command : commands()) {
    if (command.name == name) return {page_of(command)};
  }
  refuse(options, "unknown command \"{}\"{}", name, did_you_mean(name, command_names()));
}

void write_pages(const std::vector<Page>& pages, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw DeviceError(
        fmt::format("{}: cannot make this folder: {}", folder.string(), error.message()));
  for (const Page& page : pages) write_file(folder / page.file, page.text);
}

}  // namespace

Options options_of_man() {
  Options options("man", "[COMMAND] [--output FOLDER]",
                  "Prints the manual page of tandem, or of a command; man -l - shows it. "
                  "Where tandem is installed, man tandem finds them.");
  options.words("COMMAND", 0, 2).first_word(command_names());
  options.output("output", "FOLDER", "write all pages into this folder");
  return options;
}

int run_man(const Options& options) {
  if (options.has("output") && !options.words().empty())
    refuse(options, "--output writes all pages: it takes no COMMAND");
  const std::vector<Page> pages = pages_of(options);
  if (options.has("output")) write_pages(pages, options.text("output"));
  if (options.has("json")) {
    const auto page_json = [](const Page& page) -> Json {
      return {{"file", page.file}, {"text", page.text}};
    };
    print_result("man",
                 {{"command", fmt::format("{}", fmt::join(options.words(), " "))},
                  {"output", options.text("output")}},
                 Json::object(), {{"pages", array_of(pages, page_json)}});
  } else if (!options.has("output")) {
    fmt::print("{}", pages.front().text);
  }
  return 0;
}

}  // namespace tandem::tools
