#include "tools/cli/manual.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "tools/cli/machine.h"
#include "tools/cli/options.h"
#include "tools/cli/split.h"

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

std::string head(std::string_view page, std::string_view summary) {
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

std::string option(const Options::Row& row) {
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

}  // namespace

std::string troff(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = std::max<std::size_t>(character_size(text), 1);
    result += size == 1 ? troff_ascii(text[0]) : troff_character(text.substr(0, size));
    text.remove_prefix(size);
  }
  return (result.starts_with('.') ? "\\&" : "") + result;
}

std::string page_name(const Command& command) {
  std::string name = fmt::format("tandem-{}", command.name);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string manual_page(const Command& command) {
  const Options options = command.options();
  std::string text = head(page_name(command), command.summary);
  text += fmt::format(".SH SYNOPSIS\n.B {}\n{}\n.SH DESCRIPTION\n{}.SH OPTIONS\n",
                      troff(fmt::format("tandem {}", command.name)), troff(options.usage()),
                      paragraphs(options.summary()));
  const std::vector<std::string> groups = options.groups();
  for (const std::string& group : groups) {
    if (groups.size() > 1) text += fmt::format(".SS {}\n", troff(group));
    for (const Options::Row& row : options.rows()) {
      if (row.group == group) text += option(row);
    }
  }
  return text + exit_status() + ".SH SEE ALSO\n.BR tandem (1)\n";
}

std::string manual_page() {
  std::string text = head("tandem", "pipeline-parallel training, simulated and for real");
  text += fmt::format(
      ".SH SYNOPSIS\n.B tandem\n.I COMMAND\n[options]\n.SH DESCRIPTION\n{}\n"
      ".PP\n\\fBtandem help \\fICOMMAND\\fR shows the options of a command. Results are printed "
      "on stdout, everything else on stderr.\n.SH COMMANDS\n",
      troff(kAbout));
  for (const Command& command : commands()) {
    if (command.run == nullptr) continue;
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", troff(page_name(command)), troff(command.summary));
  }
  return text + exit_status();
}

}  // namespace tandem::tools
