#pragma once
// The fenced blocks of a Markdown page, and how each is checked. tests/README.md, "Documents", is
// the rule for who writes one:
//
//   ```console         lines "$ command", each with the output it prints
//   ```sh              commands alone
//   ```                anything else, which is not run
//
// Behind the language: measured, exit=N, needs=data, not-run=REASON.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

/// Why a block may stay unrun. There are no others.
const std::vector<std::string>& not_run_reasons();

struct ShownCommand {
  std::ptrdiff_t line = 0;         // of the page, from 1
  std::string command;             // with the lines that a backslash continues
  std::vector<std::string> shown;  // the output below it, to the next command or the fence
};

struct Block {
  std::ptrdiff_t line = 0;  // of the fence that opens it, from 1
  std::string language;     // "" of a bare fence
  std::vector<std::string> text;
  std::vector<ShownCommand> commands;  // of a console block; of a sh block one, all its text
  bool measured = false;               // numbers are compared by shape
  bool needs_data = false;             // published data, as DataTest (tests/support/data.h)
  int exit_code = 0;                   // of its last command; all others exit 0
  std::string not_run;                 // the reason; "": it is run
  std::vector<std::string> faults;     // of how it is written: "README.md:3: error: ..."

  bool console() const { return language == "console"; }
  bool runs() const { return !commands.empty() && not_run.empty(); }
};

/// All blocks, in order. `path` is for messages.
std::vector<Block> blocks_of(const std::string& path, std::string_view page);

/// A page's text; "" where there is none.
std::string read_page(const std::filesystem::path& path);
std::vector<std::string> lines_of_page(std::string_view text);

}  // namespace tandem::testing
