#pragma once
// Text read a line and a word at a time, with diagnostics that point into it. For
// core/notation/ and core/import/.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/schedule/op_kind.h"

namespace tandem {

/// The kind of op that a letter of our notation stands for; empty: none.
std::optional<OpKind> kind_of_letter(char letter);
/// All such letters, for messages: "f r b …".
std::string op_letters();

/// Ends the reading of a word, once its diagnostic is made.
struct BadWord {};

/// A word and where it stands, for diagnostics made later.
struct WordPlace {
  std::string_view word, line;
  std::uint32_t line_number = 0;
};

/// INVARIANT: words lie within their line, lines within the text, which outlives the reader.
class WordReader {
 public:
  /// A byte order mark at the beginning is none of the text.
  WordReader(std::string_view text, std::string_view file);

  /// Goes to the next line, and diagnoses a NUL byte in it; false: there is none.
  bool next_line();
  std::string_view line() const { return line_; }
  /// At the end of the line but for blanks, which it skips.
  bool at_end();
  /// What is left of the line, blanks skipped.
  std::string_view rest();
  /// The next word; empty at the end of the line.
  std::string_view next_word();
  /// Passes over `count` bytes. REQUIRES: the line has them.
  void skip(std::size_t count) { at_ += count; }

  /// All of `digits` as a number from `least` to `most`, else fails; `what` names it.
  std::uint32_t number(std::string_view digits, std::string_view what, std::uint32_t least,
                       std::uint32_t most);
  /// All of `word` as a number from 0 to `most`, else fails; `what` names it.
  double real(std::string_view word, std::string_view what, double most);
  /// The digits that `word` starts with, taken off it.
  static std::string_view take_digits(std::string_view& word);

  /// Diagnoses `at`, a part of the line. Beyond 100 diagnostics the text is given up.
  void diagnose(std::string_view at, std::string message, std::string hint = "");
  void diagnose(const WordPlace& at, std::string message);
  void diagnose_whole_text(std::string message);
  /// Diagnoses and throws BadWord.
  [[noreturn]] void fail(std::string_view at, std::string message, std::string hint = "");
  WordPlace place_of(std::string_view word) const { return {word, line_, line_number_}; }
  bool given_up() const { return given_up_; }
  bool has_diagnostic() const { return !diagnostics_.empty(); }
  /// Throws InputError with the diagnostics, if there are any.
  void finish();

  /// Calls `read` at each line that is left; goes on with the next one after a BadWord.
  template <class Read>
  void each_line(Read read) {
    while (next_line()) {
      try {
        read();
      } catch (const BadWord&) {  // the next line may be good
      }
    }
  }

 private:
  std::string_view text_, file_, line_;
  std::size_t next_ = 0, at_ = 0;  // in text_, in line_
  std::uint32_t line_number_ = 0;
  bool given_up_ = false;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace tandem
