#pragma once
// Tokens: what a language model reads, in order — the bytes of a text, or the numbers of a token
// file. A file is mapped, not read: it costs no memory of the process, and must not change while
// it is in use.
//
// The token file is llm.c's (.bin): a header of 256 int32, little-endian — magic 20240520, version
// 1, count of tokens, zeros — then that many uint16, and nothing more.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// Immutable; copies share what they view.
class Tokens {
 public:
  /// Each byte of `text` is a token. `source`: its name in messages.
  static Tokens of_text(std::string text, std::string source);

  /// The token file at `path` if its name ends in .bin, else a text. Throws InputError naming the
  /// path when it can't be mapped or is empty, and when a token file is not one, is cut short or
  /// holds no tokens.
  static Tokens of_file(const std::string& path);

  std::int64_t size() const;
  /// Bytes of a text, not numbers of a token file.
  bool are_bytes() const { return wide_.empty(); }
  const std::string& source() const { return source_; }

  /// Tokens from `first` on. REQUIRES: inside the range (checked).
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

  /// Throws InputError unless every token is less than `vocabulary`; reads them all.
  void check_within(std::int32_t vocabulary) const;

 private:
  std::shared_ptr<const void> owner_;
  std::string_view bytes_;  // one of the two is not empty
  std::span<const std::uint16_t> wide_;
  std::string source_;
};

/// A token file of these tokens. Throws DeviceError when it can't be written, InputError when there
/// are more than the format can count (2³¹ − 1).
void write_token_file(const std::string& path, std::span<const std::uint16_t> tokens);

}  // namespace tandem
