// tandem tokens FILE...: texts and token files as one token file.

#include "executor/data/tokens.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/text/output_place.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

/// All tokens of the files, one file after the other.
std::vector<std::uint16_t> read_all(const std::vector<std::string>& files) {
  std::vector<std::uint16_t> all;
  std::vector<std::int32_t> piece;
  for (const std::string& file : files) {
    const Tokens tokens = Tokens::of_file(file);
    piece.resize(static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, piece);
    all.reserve(all.size() + piece.size());
    for (const std::int32_t token : piece) all.push_back(static_cast<std::uint16_t>(token));
  }
  return all;
}

}  // namespace

Options options_of_tokens() {
  Options options(
      "tokens", "FILE... --output FILE.bin [--json]",
      "Joins texts (one token a byte) and token files (.bin) to one token file in llm.c's format.");
  options.words("FILE", 1, std::numeric_limits<int>::max());
  options.output("output", "FILE.bin", "the token file to write");
  return options;
}

int run_tokens(const Options& options) {
  if (!options.has("output")) refuse(options, "--output is missing");
  const std::string path = options.text("output");
  if (!path.ends_with(".bin"))
    refuse(options, "--output: expected a name that ends in .bin, found \"{}\"", path);
  check_can_write(path);
  const std::vector<std::uint16_t> tokens = read_all(options.words());
  write_token_file(path, tokens);
  const std::int32_t vocabulary = *std::ranges::max_element(tokens) + 1;
  if (options.has("json")) {
    print_result("tokens", {{"files", options.words()}, {"output", path}}, Json::object(),
                 {{"tokens", tokens.size()}, {"vocabulary", vocabulary}});
  } else {
    fmt::print("{}: {} tokens; a vocabulary of {} holds them\n", path, tokens.size(), vocabulary);
  }
  return 0;
}

}  // namespace tandem::tools
