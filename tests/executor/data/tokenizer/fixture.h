#pragma once
// The small tokenizers that hugging_face.py made, and what PyPI's tokenizers makes of texts.

#include <string>

#include "core/text/files.h"
#include "executor/data/tokenizer/tokenizer.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {

/// "gpt2.json", "llama3.json", "qwen.json" or "ids.json".
inline std::string tokenizer_fixture(const std::string& name) {
  const auto folder = source_folder() / "tests/executor/data/tokenizer/fixtures";
  return read_file((folder / name).string(), 1'000'000);
}

inline std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  Tokenizer::Encoder(tokenizer).encode(text, ids);
  return ids;
}

}  // namespace tandem::testing
