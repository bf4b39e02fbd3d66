#include "tools/cli/completion.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/import/importers.h"
#include "core/model/catalog.h"
#include "core/schedule/schedule.h"
#include "tools/cli/command.h"
#include "tools/cli/split.h"
#include "tools/cli/terminal.h"

namespace tandem::tools {

namespace {

using Words = std::vector<std::string>;

/// What an option's name says of its value.
Words names_for(std::string_view option) {
  if (option == "schedule") return schedule_names();
  if (option == "gpu") return names_of(catalog().devices);
  if (option == "cluster") return names_of(catalog().nodes);
  if (option == "from") return names_of(importers());
  Words models;
  if (option == "model") {
    for (const CatalogModel& row : catalog().models) models.push_back(row.model.name);
  }
  return models;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

/// "-h --help", as people type them.
Words spelled(const Options::Row& row) {
  Words all{"--" + row.name};
  if (!row.letter.empty()) all.push_back("-" + row.letter.substr(1));
  return all;
}

bool takes_value(const Options::Row& row) { return !row.argument.empty(); }

/// The alternatives of the first "a|b|c" in a text, but for those that stand for a value ("K/N").
Words alternatives(std::string_view text) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '|';
  };
  while (!text.empty()) {
    const auto first = std::ranges::find_if(text, is_part);
    const auto last = std::find_if_not(first, text.end(), is_part);
    const std::string_view token(first, last);
    text = std::string_view(last, text.end());
    if (token.find('|') == std::string_view::npos) continue;
    Words words;
    for (const std::string_view word : split(token, "|")) {
      // Capitals stand for a value.
      if (!word.empty() && std::isupper(static_cast<unsigned char>(word.front())) == 0)
        words.emplace_back(word);
    }
    if (!words.empty()) return words;
  }
  return {};
}

/// What may stand for a value, or for a word that is no option.
struct Choices {
  Words words;
  bool files = false;
};

/// Names that tandem knows (--schedule, --cluster, …), alternatives that the row names ("a|b|c"),
/// files for what is read or written. Neither: a number, or a name that only its user knows.
Choices choices_of(const Options::Row& row) {
  if (row.use != Options::Use::other) {
    const bool file_alone = row.argument.starts_with("FILE");  // else a NAME, too
    return {.words = file_alone ? Words{} : names_for(row.name), .files = true};
  }
  Words words = names_for(row.name);
  if (words.empty()) words = alternatives(row.argument);
  if (words.empty()) words = alternatives(row.help);
  return {.words = std::move(words)};
}

/// Of the first word that is no option.
Choices first_word_of(const Options& options) {
  return {.words = options.first_words(),
          .files = options.takes_words() && options.first_word_may_be_file()};
}

/// A script of tools/cli/completion/ with texts in place of its marks.
std::string filled(std::string_view script,
                   std::initializer_list<std::pair<std::string_view, std::string>> parts) {
  std::string text(script);
  for (const auto& [mark, part] : parts) {
    const std::size_t at = text.find(mark);
    TANDEM_CHECK(at != std::string::npos, std::string(mark));
    text.replace(at, mark.size(), part);
  }
  return text;
}

// ---- bash ----

std::string bash_values(const Options& options) {
  std::string text;
  for (const Options::Row& row : options.rows()) {
    if (!takes_value(row)) continue;
    const Choices choices = choices_of(row);
    text += fmt::format("        {}) value='{}' files={} ;;\n", fmt::join(spelled(row), " | "),
                        fmt::join(choices.words, " "), choices.files ? "yes" : "no");
  }
  return text;
}

std::string bash_script() {
  std::string cases;
  Words actions;
  for (const Command& command : commands()) {
    const Options options = command.options();
    if (!command.has_own_name()) actions.push_back(shell_word(std::string(command.name)));
    Words names;
    for (const Options::Row& row : options.rows()) {
      for (const std::string& name : spelled(row)) names.push_back(name);
    }
    const Choices first = first_word_of(options);
    const std::string values = bash_values(options);
    cases += fmt::format("    {})\n      options='{}'\n      words='{}' files={} more={}\n",
                         shell_word(std::string(command.name)), fmt::join(names, " "),
                         fmt::join(first.words, " "), first.files ? "yes" : "no",
                         options.takes_words() ? "yes" : "no");
    if (!values.empty()) cases += fmt::format("      case $previous in\n{}      esac\n", values);
    cases += "      ;;\n";
  }
  return filled(bash_script_text(),
                {{"@COMMANDS@", fmt::to_string(fmt::join(command_names(), " "))},
                 {"@ACTIONS@", fmt::to_string(fmt::join(actions, " | "))},
                 {"@CASES@", cases}});
}

// ---- zsh ----

/// For single quotes, with a backslash before each of `marks`.
std::string escaped(std::string_view text, std::string_view marks = "") {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (c == '\\' || marks.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}
std::string quoted(std::string_view text) { return "'" + escaped(text) + "'"; }

std::string zsh_action(const Choices& choices) {
  const std::string words = fmt::to_string(fmt::join(choices.words, " "));
  if (choices.files) return words.empty() ? "_files" : " _tandem_words_or_files " + words;
  return words.empty() ? " " : fmt::format("({})", words);
}

std::string zsh_option(const Options::Row& row) {
  constexpr std::string_view kMarks = "[]:";
  const std::string help = escaped(first_line(row.help), kMarks);
  if (takes_value(row)) {
    return fmt::format("'--{}=[{}]:{}:{}'", row.name, help, escaped(row.argument, kMarks),
                       zsh_action(choices_of(row)));
  }
  if (row.list) return fmt::format("'--{}=-[{}]::yes or no:(yes no)'", row.name, help);
  if (row.letter.empty()) return fmt::format("'--{}[{}]'", row.name, help);
  const std::string letter = "-" + row.letter.substr(1);
  return fmt::format("'({0} --{1})'{{{0},--{1}}}'[{2}]'", letter, row.name, help);
}

std::string zsh_script() {
  std::string listed, cases;
  Words actions;
  for (const Command& command : commands()) {
    const Options options = command.options();
    const std::string name = shell_word(std::string(command.name));
    if (command.has_own_name())
      listed += fmt::format("  {}\n", quoted(fmt::format("{}:{}", command.name, command.summary)));
    else
      actions.push_back(name);
    cases += fmt::format("    {})\n      _arguments", name);
    for (const Options::Row& row : options.rows())
      cases += fmt::format(" \\\n        {}", zsh_option(row));
    const Choices first = first_word_of(options);
    if (!first.words.empty()) cases += fmt::format(" \\\n        '1:word:{}'", zsh_action(first));
    if (options.takes_words()) cases += " \\\n        '*:file:_files'";
    cases += "\n      ;;\n";
  }
  return filled(zsh_script_text(), {{"@LISTED@", listed},
                                    {"@ACTIONS@", fmt::to_string(fmt::join(actions, " | "))},
                                    {"@CASES@", cases}});
}

// ---- fish ----

/// The command line has this command.
std::string fish_condition(const Command& command) {
  const std::size_t space = command.name.find(' ');
  const std::string_view first = command.name.substr(0, space);
  if (space == std::string_view::npos) return fmt::format("__fish_seen_subcommand_from {}", first);
  return fmt::format("__fish_seen_subcommand_from {}; and __fish_seen_subcommand_from {}", first,
                     command.name.substr(space + 1));
}

std::string fish_option(const Command& command, const Options::Row& row) {
  std::string line =
      fmt::format("complete -c tandem -n {} -l {}", quoted(fish_condition(command)), row.name);
  if (!row.letter.empty()) line += " -s " + row.letter.substr(1);
  if (takes_value(row)) {
    const Choices choices = choices_of(row);
    line += choices.files ? " -r -F" : " -x";
    if (!choices.words.empty()) line += fmt::format(" -a '{}'", fmt::join(choices.words, " "));
  }
  return line + fmt::format(" -d {}\n", quoted(first_line(row.help)));
}

std::string fish_script() {
  std::string text =
      "# Completes tandem's command lines in fish; made by: tandem completion fish\n\n"
      "complete -c tandem -f\n"
      "complete -c tandem -n __fish_use_subcommand -l help -s h -d 'show the commands'\n"
      "complete -c tandem -n __fish_use_subcommand -l version -d 'the version of this build'\n"
      "complete -c tandem -n __fish_use_subcommand -a help -d 'the options of a command'\n" +
      fmt::format("complete -c tandem -n '__fish_seen_subcommand_from help' -a '{}'\n",
                  fmt::join(command_names(), " "));
  for (const Command& command : commands()) {
    const Options options = command.options();
    const std::string condition = fish_condition(command);
    text += "\n";
    if (command.has_own_name()) {
      text += fmt::format("complete -c tandem -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          quoted(command.summary));
    }
    const Choices first = first_word_of(options);
    if (!first.words.empty()) {
      text += fmt::format("complete -c tandem -n {} -a '{}'\n",
                          quoted(condition + "; and test (count (commandline -opc)) -eq 2"),
                          fmt::join(first.words, " "));
    }
    if (first.files) text += fmt::format("complete -c tandem -n {} -F\n", quoted(condition));
    for (const Options::Row& row : options.rows()) text += fish_option(command, row);
  }
  return text;
}

}  // namespace

std::vector<std::string> schedule_names() {
  Words names;
  for (const ScheduleTraits& row : schedules()) {
    names.emplace_back(row.name);
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  }
  return names;
}

std::vector<std::string> command_names() {
  Words names;
  for (const Command& command : commands()) {
    if (command.has_own_name()) names.emplace_back(command.name);
  }
  return names;
}

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  TANDEM_CHECK(shell == "fish", std::string(shell));
  return fish_script();
}

}  // namespace tandem::tools
