#pragma once
// The table of subcommands, which main.cpp has.

#include <span>
#include <string_view>

#include "tools/cli/options.h"

namespace tandem::tools {

inline constexpr std::string_view kAbout =
    "Plans, simulates and trains deep networks with pipeline parallelism.";

struct Command {
  std::string_view name;  // two words: the second is for the first to run ("sweep merge")
  std::string_view summary;
  int (*run)(const Options&);
  Options (*options)();  // what it declares, nothing parsed

  bool has_own_name() const { return name.find(' ') == std::string_view::npos; }
};
std::span<const Command> commands();

}  // namespace tandem::tools
