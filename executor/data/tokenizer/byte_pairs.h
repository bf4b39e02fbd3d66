#pragma once
// Byte pair encoding: a word begins as its bytes, and the neighbours that the earliest merge joins
// are joined, the leftmost first, until no merge is left (Sennrich, Haddow and Birch, "Neural
// machine translation of rare words with subword units", ACL 2016).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// Ids are below this: tables by id stay small, whatever a file says.
inline constexpr std::int32_t kMostTokenIds = 1 << 21;

/// A longer word is refused: joining takes 24 bytes for each of its bytes.
inline constexpr std::size_t kLongestWord = std::size_t{16} << 20;

struct MergeRow {
  std::int32_t left = 0, right = 0, joined = 0;  // ids
};

/// Immutable: may be shared by threads.
class BytePairs {
 public:
  BytePairs() = default;
  /// `tokens`: bytes and id, each bytes and each id once. `merges`: in the order of their ranks,
  /// each pair once, each with ids of `tokens`. `whole_words`: a word that is a token is that
  /// token, whatever merges make of it. REQUIRES: a token of each byte that UTF-8 may hold.
  BytePairs(std::vector<std::pair<std::string, std::int32_t>> tokens,
            std::span<const MergeRow> merges, bool whole_words);

  /// Appends the ids of one word. Throws InputError beyond kLongestWord. REQUIRES: valid UTF-8.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;

  /// The id of a token with these bytes.
  std::optional<std::int32_t> find(std::string_view bytes) const;

 private:
  struct Merge {
    std::int32_t right, rank, joined;
  };

  const Merge* merge_of(std::int32_t left, std::int32_t right) const;
  void encode_short(std::string_view word, std::vector<std::int32_t>& ids) const;
  void encode_long(std::string_view word, std::vector<std::int32_t>& ids) const;

  std::vector<std::pair<std::string, std::int32_t>> tokens_;  // sorted by bytes
  std::array<std::int32_t, 256> of_byte_{};
  std::vector<std::uint32_t> first_merge_;  // of each id as the left one, and the end
  std::vector<Merge> merges_;               // by left id, then right
  bool whole_words_ = false;
};

}  // namespace tandem
