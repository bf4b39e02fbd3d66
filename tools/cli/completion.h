#pragma once
// Scripts that complete command lines of tandem in a shell, made from the rows of every command's
// options. They hold all names, so that a shell never starts tandem to complete a word.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::tools {

/// With aliases.
std::vector<std::string> schedule_names();
std::vector<std::string> command_names();

/// The scripts of tools/cli/completion/, with marks in place of what the options say.
std::string_view bash_script_text();
std::string_view zsh_script_text();

/// `shell`: bash, zsh or fish.
std::string completion_script(std::string_view shell);

}  // namespace tandem::tools
