#pragma once
// --data and --validation-data: what a run trains or is judged on.

#include <optional>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint_info.h"
#include "executor/data/data.h"
#include "executor/data/tokenizer/tokenizer.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// Tokens of a text, a token file or a folder of token files; notes which have no header, as
/// nothing then says that they are tokens. Throws InputError.
Tokens read_tokens(const std::string& path);

/// A run's tokenizer, and the files that say it, as checkpoints keep them.
struct TextTokenizer {
  Tokenizer tokenizer;
  std::vector<KeptFile> files;

  /// Of a text its tokens; others as they are. Throws InputError.
  Tokens tokens_of(Tokens tokens) const;
};

/// --tokenizer, else the tokenizer.json in `folder`; none: a byte is a token. `folder`: of weights;
/// may be empty. Throws InputError where it is none that can be read.
std::optional<TextTokenizer> text_tokenizer(const Options& options, const std::string& folder);

/// --data, --tokenizer, --data-order.
void add_data_options(Options& options);
SampleOrder data_order(const Options& options);

}  // namespace tandem::tools
