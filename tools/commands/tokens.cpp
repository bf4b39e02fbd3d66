// tandem tokens FILE...: texts and token files as one token file.

#include "executor/data/tokens.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/text/output_place.h"
#include "executor/data/tokenizer/tokenizer.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/options/training_tokens.h"

namespace tandem::tools {

namespace {

/// All tokens of the files, one file after the other.
std::vector<std::int32_t> read_all(const std::vector<std::string>& files) {
  std::vector<std::int32_t> all;
  for (const std::string& file : files) {
    const Tokens tokens = read_tokens(file);
    tokens.check_within(std::numeric_limits<std::int32_t>::max());
    const std::size_t before = all.size();
    all.resize(before + static_cast<std::size_t>(tokens.size()));
    tokens.copy(0, std::span(all).subspan(before));
  }
  return all;
}

/// The token behind each file; none: nothing is.
std::optional<std::int32_t> document_end(const Options& options, const Tokenizer& tokenizer) {
  const std::string asked = options.text("document-end");
  if (asked == "none") return std::nullopt;
  const std::optional<std::int32_t> id =
      asked.empty() ? tokenizer.end_of_text() : tokenizer.added_token(asked);
  if (id) return id;
  if (asked.empty())
    throw InputError(fmt::format(
        "{}: none of its added tokens is known to end a document: give --document-end TOKEN|none",
        tokenizer.file()));
  throw InputError(
      fmt::format("--document-end: {} has no added token \"{}\"", tokenizer.file(), asked));
}

/// The same of texts, by a tokenizer.
std::vector<std::int32_t> encode_all(const Options& options, const Tokenizer& tokenizer) {
  const std::optional<std::int32_t> end = document_end(options, tokenizer);
  Tokenizer::Encoder encoder(tokenizer);
  std::vector<std::int32_t> all;
  for (const std::string& file : options.words()) {
    const Tokens text = Tokens::of_file(file);
    if (!text.are_bytes())
      throw InputError(fmt::format("{}: holds tokens, and a tokenizer takes texts", file));
    const Activity progress("encoding " + file);
    try {
      encoder.encode(text.text(), all);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", file, error.what()));
    }
    if (end) all.push_back(*end);
  }
  return all;
}

}  // namespace

Options options_of_tokens() {
  Options options("tokens", "FILE... --output FILE.bin [--tokenizer PATH] [--json]",
                  "Joins texts (one token a byte, or as a tokenizer has it) and token files (.bin, "
                  "or folders of them) to one token file in llm.c's format.");
  options.words("FILE", 1, std::numeric_limits<int>::max());
  options.output("output", "FILE.bin", "the token file to write")
      .input("tokenizer", "PATH",
             "tokenizer.json of Hugging Face, or its folder: byte-level BPE, as of GPT-2, Llama 3 "
             "and Qwen")
      .value("document-end", "TOKEN",
             "added token behind each text, or none (default: <|endoftext|>, <|end_of_text|> or "
             "</s>)");
  return options;
}

int run_tokens(const Options& options) {
  if (!options.has("output")) refuse(options, "--output is missing");
  if (!options.has("tokenizer"))
    refuse_given(options, {"document-end"}, "--{} goes with --tokenizer PATH");
  const std::string path = options.text("output");
  if (!path.ends_with(".bin"))
    refuse(options, "--output: expected a name that ends in .bin, found \"{}\"", path);
  check_can_write(path);
  std::optional<Tokenizer> tokenizer;
  if (options.has("tokenizer")) tokenizer = Tokenizer::of_file(options.text("tokenizer"));
  const std::vector<std::int32_t> tokens =
      tokenizer ? encode_all(options, *tokenizer) : read_all(options.words());
  if (tokens.empty()) throw InputError("there are no tokens: nothing is written");
  write_token_file(path, tokens);
  const std::int32_t vocabulary =
      tokenizer ? tokenizer->vocabulary() : *std::ranges::max_element(tokens) + 1;
  if (options.has("json")) {
    Json config{{"files", options.words()}, {"output", path}};
    if (tokenizer) config["tokenizer"] = tokenizer->file();
    print_result("tokens", std::move(config), Json::object(),
                 {{"tokens", tokens.size()}, {"vocabulary", vocabulary}});
  } else {
    fmt::print("{}: {} tokens; a vocabulary of {} holds them\n", path, tokens.size(), vocabulary);
  }
  return 0;
}

}  // namespace tandem::tools
