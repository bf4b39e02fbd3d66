#pragma once
// Tokens: what a language model reads, in order — the bytes of a text, or the numbers of token
// files (executor/data/tokenizers.md). Files are mapped, not read: they cost no memory of the
// process, and must not change while they are in use.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem {

/// Immutable; copies share what they view.
class Tokens {
 public:
  /// Each byte of `text` is a token. `source`: its name in messages.
  static Tokens of_text(std::string text, std::string source);

  /// Of numbers, none negative.
  static Tokens of_numbers(std::vector<std::int32_t> numbers, std::string source);

  /// The token file at `path` if its name ends in .bin, the token files of a folder, one behind the
  /// other in the order of their names, else a text. Throws InputError naming the path when it
  /// can't be mapped or is empty, and when a token file is not one, is cut short or holds no
  /// tokens.
  static Tokens of_file(const std::string& path);

  std::int64_t size() const { return starts_.back(); }
  /// Bytes of a text, not numbers of token files.
  bool are_bytes() const;
  /// The text. REQUIRES: are_bytes().
  std::string_view text() const;
  /// The first token file that has no header, nanoGPT's kind; empty: none. That it is one can't be
  /// checked.
  std::string_view without_header() const;
  const std::string& source() const { return source_; }

  /// Tokens from `first` on. REQUIRES: inside the range (checked).
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

  /// A hash of how many there are, and of some all over them: to tell one text from another without
  /// reading either.
  std::uint64_t digest() const;

  /// Throws InputError unless every token is less than `vocabulary`; reads them all.
  void check_within(std::int32_t vocabulary) const;

 private:
  using Values = std::variant<std::span<const unsigned char>, std::span<const std::uint16_t>,
                              std::span<const std::uint32_t>>;
  struct Shard {
    std::shared_ptr<const void> owner;
    Values values;
    std::string source;
    bool has_header = true;
  };

  static Shard shard_of(const std::string& path);
  void add(Shard shard);

  std::vector<Shard> shards_;
  std::vector<std::int64_t> starts_{0};  // of each shard, and the end
  std::string source_;
};

/// A token file of these tokens, as llm.c writes them: 16 bits each where all are below 65,536,
/// else
/// 32. Throws DeviceError when it can't be written, InputError when there are more than the format
/// can count (2³¹ − 1). REQUIRES: none negative.
void write_token_file(const std::string& path, std::span<const std::int32_t> tokens);

}  // namespace tandem
