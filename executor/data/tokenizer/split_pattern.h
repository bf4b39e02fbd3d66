#pragma once
// A regular expression that cuts text into words, compiled once by PCRE2.

#include <cstddef>
#include <memory>
#include <string_view>

namespace tandem {

/// Immutable: may be shared by threads, each with a Search of its own.
class SplitPattern {
 public:
  struct Match {
    std::size_t first = 0, last = 0;  // [first, last), bytes
  };
  /// What one thread searches with.
  class Search;

  /// `pattern`: in tokenizer.json's syntax. Throws InputError where it is not supported
  /// (split_syntax.h), is malformed or matches an empty text.
  explicit SplitPattern(std::string_view pattern);

  /// "14.0.0": the version of Unicode whose letters PCRE2 knows.
  static std::string_view unicode_version();
  /// "10.42": of the library.
  static std::string_view library_version();

 private:
  std::shared_ptr<void> code_;
};

class SplitPattern::Search {
 public:
  explicit Search(const SplitPattern& pattern);

  /// The leftmost match in text from `from` on; false: there is none. Throws InputError where it is
  /// empty, or would take more than ten million steps. REQUIRES: valid UTF-8, `from` at a
  /// character.
  bool find(std::string_view text, std::size_t from, Match& match) const;

 private:
  std::shared_ptr<void> code_, context_, stack_, found_;
};

}  // namespace tandem
