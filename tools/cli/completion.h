#pragma once
// Scripts that complete command lines of tandem in a shell, made from the rows of every command's
// options. They hold all names, so that a shell never starts tandem to complete a word.

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/options.h"

namespace tandem::tools {

/// What may stand for a value, or for a word that is no option.
struct Choices {
  std::vector<std::string> words;
  bool files = false;
};

/// Names that tandem knows (--schedule, --cluster, …), alternatives that the row names ("a|b|c"),
/// files for what is read or written. Neither: a number, or a name that only its user knows.
Choices choices_of(const Options::Row& row);
/// Of the first word that is no option.
Choices first_word_of(const Options& options);

/// With aliases.
std::vector<std::string> schedule_names();
std::vector<std::string> command_names();

/// The alternatives of the first "a|b|c" in a text, but for those that stand for a value ("K/N").
std::vector<std::string> alternatives(std::string_view text);

/// The scripts of tools/cli/completion/, with marks in place of what the options say.
std::string_view bash_script_text();
std::string_view zsh_script_text();

/// `shell`: bash, zsh or fish.
std::string completion_script(std::string_view shell);

}  // namespace tandem::tools
