#include "tools/cli/completion.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/import/importers.h"
#include "core/model/catalog.h"
#include "core/schedule/schedule.h"
#include "tools/cli/command.h"
#include "tools/cli/split.h"
#include "tools/cli/wrapped_text.h"

namespace tandem::tools {

namespace {

using Words = std::vector<std::string>;

/// What an option's name says of its value.
Words names_for(std::string_view option) {
  Words names;
  if (option == "schedule") names = schedule_names();
  if (option == "gpu") {
    for (const DeviceSpec& row : catalog().devices) names.push_back(row.name);
  }
  if (option == "cluster") {
    for (const GroupSpec& row : catalog().nodes) names.push_back(row.name);
  }
  if (option == "model") {
    for (const CatalogModel& row : catalog().models) names.push_back(row.model.name);
  }
  if (option == "from") {
    for (const Importer& row : importers()) names.emplace_back(row.name);
  }
  return names;
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

/// Every command of this version, those of two words behind their first.
void for_each_command(const std::function<void(const Command&, const Options&)>& use) {
  for (const Command& command : commands()) {
    if (command.run != nullptr) use(command, command.options());
  }
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
    if (command.run != nullptr && command.has_own_name()) names.emplace_back(command.name);
  }
  return names;
}

std::vector<std::string> alternatives(std::string_view text) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '|';
  };
  while (!text.empty()) {
    const auto first = std::find_if(text.begin(), text.end(), is_part);
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

Choices first_word_of(const Options& options) {
  return {.words = options.first_words(),
          .files = options.takes_words() && options.first_word_may_be_file()};
}

namespace {

// ---- bash ----

constexpr std::string_view kBashHead =
    R"(# Completes tandem's command lines in bash; made by: tandem completion bash

_tandem() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  # bash cuts --option=value at the sign.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  local command=${COMP_WORDS[1]} commands='@COMMANDS@'
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "help $commands --help --version" -- "$current")
    return
  fi
  [[ $command == help ]] && mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  if ((COMP_CWORD > 2)); then
    case "$command ${COMP_WORDS[2]}" in
      @ACTIONS@) command="$command ${COMP_WORDS[2]}" ;;
    esac
  fi
  # options: those of the command. words: what a word that is no option may be, files: whether that
  # may be a file, more: whether one behind the first may. value: what the option before takes.
  local options= words= files=no more=no value=no
  case $command in
)";

constexpr std::string_view kBashTail = R"(    *) return ;;
  esac
  if [[ $value == no && $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  if [[ $value != no ]]; then
    words=$value
  elif ((COMP_CWORD > 2)) && [[ $more == yes ]]; then
    files=yes
  fi
  # Of a list A,B,C the last is completed.
  local listed=
  [[ $current == *,* ]] && listed=${current%,*},
  mapfile -t COMPREPLY < <(compgen -P "$listed" -W "$words" -- "${current##*,}")
  if [[ $files == yes ]]; then
    local -a found
    mapfile -t found < <(compgen -f -- "$current")
    COMPREPLY+=("${found[@]}")
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _tandem tandem
)";

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

std::string replaced(std::string text, std::string_view mark, const std::string& instead) {
  const std::size_t at = text.find(mark);
  TANDEM_CHECK(at != std::string::npos, std::string(mark));
  return text.replace(at, mark.size(), instead);
}

std::string bash_script() {
  std::string cases;
  Words actions;
  for_each_command([&](const Command& command, const Options& options) {
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
  });
  std::string head = replaced(std::string(kBashHead), "@COMMANDS@",
                              fmt::to_string(fmt::join(command_names(), " ")));
  head = replaced(std::move(head), "@ACTIONS@", fmt::to_string(fmt::join(actions, " | ")));
  return head + cases + std::string(kBashTail);
}

// ---- zsh ----

constexpr std::string_view kZshHead = R"(#compdef tandem
# Completes tandem's command lines in zsh; made by: tandem completion zsh

_tandem_words_or_files() {
  compadd -- "$@"
  _files
}

)";

constexpr std::string_view kZshMiddle = R"(_tandem() {
  local curcontext=$curcontext state line
  if ((CURRENT == 2)); then
    _describe -t commands 'command of tandem' _tandem_commands
    return
  fi
  local command=$words[2]
  if [[ $command == help ]]; then
    _describe -t commands 'command of tandem' _tandem_commands
    return
  fi
  if ((CURRENT > 3)); then
    case "$command $words[3]" in
      @ACTIONS@)
        command="$command $words[3]"
        shift words
        ((CURRENT--))
        ;;
    esac
  fi
  shift words
  ((CURRENT--))
  case $command in
)";

constexpr std::string_view kZshTail = R"(  esac
}

if [[ $funcstack[1] == _tandem ]]; then
  _tandem "$@"
else
  compdef _tandem tandem
fi
)";

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
  std::string listed = "_tandem_commands=(\n", cases;
  Words actions;
  for_each_command([&](const Command& command, const Options& options) {
    const std::string name = shell_word(std::string(command.name));
    if (command.has_own_name()) {
      listed += fmt::format("  {}\n", quoted(fmt::format("{}:{}", command.name, command.summary)));
    } else {
      actions.push_back(name);
    }
    cases += fmt::format("    {})\n      _arguments", name);
    for (const Options::Row& row : options.rows())
      cases += fmt::format(" \\\n        {}", zsh_option(row));
    const Choices first = first_word_of(options);
    if (!first.words.empty()) cases += fmt::format(" \\\n        '1:word:{}'", zsh_action(first));
    if (options.takes_words()) cases += " \\\n        '*:file:_files'";
    cases += "\n      ;;\n";
  });
  return std::string(kZshHead) + "typeset -ga _tandem_commands\n" + listed + ")\n\n" +
         replaced(std::string(kZshMiddle), "@ACTIONS@", fmt::to_string(fmt::join(actions, " | "))) +
         cases + std::string(kZshTail);
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
  for_each_command([&](const Command& command, const Options& options) {
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
  });
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  TANDEM_CHECK(shell == "fish", std::string(shell));
  return fish_script();
}

}  // namespace tandem::tools
