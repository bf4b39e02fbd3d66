#include "tools/options/training_tokens.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/text/files.h"
#include "tools/cli/notices.h"

namespace tandem::tools {

Tokens read_tokens(const std::string& path) {
  Tokens tokens = Tokens::of_file(path);
  if (const std::string_view raw = tokens.without_header(); !raw.empty()) {
    print_note(
        fmt::format("{} has no header: each 2 bytes are taken for a token, as in nanoGPT's "
                    "files",
                    raw));
  }
  return tokens;
}

Tokens TextTokenizer::tokens_of(Tokens tokens) const {
  if (!tokens.are_bytes()) return tokens;
  std::vector<std::int32_t> numbers;
  Tokenizer::Encoder(tokenizer).encode(tokens.text(), numbers);
  return Tokens::of_numbers(std::move(numbers), tokens.source());
}

std::optional<TextTokenizer> text_tokenizer(const Options& options, const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr std::size_t kLargestConfig = 1U << 20U;
  std::error_code error;
  const bool given = options.has("tokenizer");
  if (!given && (folder.empty() || !fs::exists(fs::path(folder) / kTokenizerName, error)))
    return std::nullopt;
  const std::string path = given ? options.text("tokenizer") : folder;
  TextTokenizer made{.tokenizer = Tokenizer::of_file(path), .files = {}};
  const fs::path file = made.tokenizer.file();
  const fs::path config = file.parent_path() / kTokenizerConfigName;
  made.files.push_back({kTokenizerName, read_file(file.string(), fs::file_size(file))});
  if (fs::exists(config, error))
    made.files.push_back({kTokenizerConfigName, read_file(config.string(), kLargestConfig)});
  return made;
}

void add_data_options(Options& options) {
  options
      .input("data", "FILE",
             "text to train on, as bytes, token file (.bin), or folder of token files (default: "
             "the shipped text)")
      .input("tokenizer", "PATH",
             "tokenizer.json, or its folder, that texts are cut by; kept in checkpoints (default: "
             "that of --resume or --init, else a byte a token)")
      .value("data-order", "ORDER",
             "random|shuffled: each sample anywhere in the data, or epochs in which each comes "
             "once (default random)");
}

SampleOrder data_order(const Options& options) {
  return options.choice("data-order", {"random", "shuffled"}) == "shuffled" ? SampleOrder::shuffled
                                                                            : SampleOrder::random;
}

}  // namespace tandem::tools
