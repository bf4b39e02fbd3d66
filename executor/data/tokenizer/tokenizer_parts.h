#pragma once
// TokenizerParts: what a tokenizer.json says, ready for use.

#include <cstdint>
#include <string>
#include <vector>

#include "executor/data/tokenizer/added_tokens.h"
#include "executor/data/tokenizer/byte_pairs.h"
#include "executor/data/tokenizer/split_pattern.h"

namespace tandem {

/// A text is cut at `added`; each piece is normalized, cut at `added_normalized`, then by each of
/// `splits` in turn; the words that come out are encoded by `pairs`.
struct TokenizerParts {
  AddedTokens added, added_normalized;
  bool nfc = false;
  std::vector<SplitPattern> splits;
  BytePairs pairs;
  std::vector<std::int32_t> before, behind;                     // what a text begins and ends with
  std::vector<std::string> bytes;                               // by id; of no token: empty
  std::vector<std::pair<std::string, std::int32_t>> added_ids;  // by content, sorted
};

/// Throws InputError with all that is wrong or not supported. `file`: its name in messages.
TokenizerParts read_tokenizer(std::string file, std::string json);

}  // namespace tandem
