#pragma once
// Tokens that stand beside the vocabulary, such as <|endoftext|>: found in a text before anything
// else cuts it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// A longer one is refused.
inline constexpr std::size_t kLongestAddedToken = 1024;

/// Immutable: may be shared by threads.
class AddedTokens {
 public:
  struct Match {
    std::size_t first = 0, last = 0;  // [first, last), bytes
    std::int32_t id = -1;
  };

  AddedTokens();
  /// REQUIRES: not empty, at most kLongestAddedToken bytes.
  void add(std::string_view content, std::int32_t id);

  /// The leftmost one from `from` on, of those that begin there the longest; false: there is none.
  bool find(std::string_view text, std::size_t from, Match& match) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> next;  // sorted
    std::int32_t id = -1;
  };
  const Node* child(const Node& node, char byte) const;

  std::vector<Node> nodes_;         // the first is the root
  std::array<bool, 256> begins_{};  // by first byte
  bool empty_ = true, one_ = true;  // begins_ is true of none, of at most one:
  char only_ = 0;
};

}  // namespace tandem
