// tandem completion bash|zsh|fish: what completes command lines in a shell.

#include "tools/cli/completion.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

Options options_of_completion() {
  Options options("completion", "bash|zsh|fish",
                  "Prints what completes tandem's command lines in a shell.\n"
                  "bash, into ~/.bashrc: eval \"$(tandem completion bash)\"\n"
                  "zsh, after compinit in ~/.zshrc: eval \"$(tandem completion zsh)\"\n"
                  "fish: tandem completion fish > ~/.config/fish/completions/tandem.fish\n"
                  "Where tandem is installed, it lies where shells look for it.");
  options.words("bash, zsh or fish", 1, 1).first_word({"bash", "zsh", "fish"});
  return options;
}

int run_completion(const Options& options) {
  const std::string& shell = options.words()[0];
  const std::vector<std::string>& shells = options.first_words();
  if (std::ranges::find(shells, shell) == shells.end()) {
    refuse(options, "expected bash, zsh or fish, found \"{}\"{}", shell,
           did_you_mean(shell, shells));
  }
  const std::string script = completion_script(shell);
  if (options.has("json"))
    print_result("completion", {{"shell", shell}}, Json::object(), {{"script", script}});
  else
    fmt::print("{}", script);
  return 0;
}

}  // namespace tandem::tools
