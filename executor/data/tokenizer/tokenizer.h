#pragma once
// Tokenizer: text to the numbers that a language model reads, and back, as Hugging Face's
// tokenizer.json describes it (executor/data/tokenizers.md). Byte-level byte pair encoding alone.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct TokenizerParts;

/// Immutable; copies share what they hold, threads may too.
class Tokenizer {
 public:
  /// What one thread encodes with: remembers words that it has met.
  class Encoder;

  /// Of a file, or of tokenizer.json in a folder. Throws InputError with all that is wrong with the
  /// file or not supported, each with its place.
  static Tokenizer of_file(const std::string& path);
  /// `file`: its name in messages.
  Tokenizer(std::string file, std::string json);

  /// One more than the highest id.
  std::int32_t vocabulary() const;
  /// The id of an added token, such as <|endoftext|>.
  std::optional<std::int32_t> added_token(std::string_view content) const;
  /// The token that ends a document: the first that there is of <|endoftext|>, <|end_of_text|> and
  /// </s> among the added ones.
  std::optional<std::int32_t> end_of_text() const;

  /// The bytes that `ids` stand for, added tokens as they are written; of part of a text these need
  /// not be valid UTF-8. Throws InputError of an id that is no token.
  std::string decode(std::span<const std::int32_t> ids) const;

  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::shared_ptr<const TokenizerParts> parts_;
};

class Tokenizer::Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  /// Appends the ids of a text, with the tokens that the file puts before and behind one. Throws
  /// InputError where it isn't UTF-8, holds a word beyond kLongestWord, or the split pattern takes
  /// too many steps: `ids` then hold what came before.
  void encode(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  class Memory;
  void encode_normalized(std::string_view text, std::vector<std::int32_t>& ids);
  void encode_piece(std::string_view text, std::size_t split, std::vector<std::int32_t>& ids);

  std::shared_ptr<const TokenizerParts> parts_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tandem
