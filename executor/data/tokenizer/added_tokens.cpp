#include "executor/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "core/base/check.h"

namespace tandem {
namespace {

bool before_byte(const std::pair<char, std::uint32_t>& edge, char byte) {
  return edge.first < byte;
}

}  // namespace

AddedTokens::AddedTokens() : nodes_(1) {}

void AddedTokens::add(std::string_view content, std::int32_t id) {
  TANDEM_CHECK(!content.empty() && content.size() <= kLongestAddedToken, content.size());
  const auto first = static_cast<unsigned char>(content[0]);
  one_ = empty_ || (one_ && only_ == content[0]);
  only_ = content[0];
  empty_ = false;
  begins_[first] = true;
  std::uint32_t node = 0;
  for (const char byte : content) {
    auto& next = nodes_[node].next;
    const auto at = std::lower_bound(next.begin(), next.end(), byte, before_byte);
    if (at != next.end() && at->first == byte) {
      node = at->second;
      continue;
    }
    const auto made = static_cast<std::uint32_t>(nodes_.size());
    next.insert(at, {byte, made});
    nodes_.emplace_back();
    node = made;
  }
  nodes_[node].id = id;
}

const AddedTokens::Node* AddedTokens::child(const Node& node, char byte) const {
  const auto at = std::lower_bound(node.next.begin(), node.next.end(), byte, before_byte);
  return at != node.next.end() && at->first == byte ? &nodes_[at->second] : nullptr;
}

bool AddedTokens::find(std::string_view text, std::size_t from, Match& match) const {
  if (empty_) return false;
  for (std::size_t first = from; first < text.size(); ++first) {
    if (one_) {
      first = text.find(only_, first);
      if (first == std::string_view::npos) return false;
    } else if (!begins_[static_cast<unsigned char>(text[first])]) {
      continue;
    }
    const Node* node = nodes_.data();
    match.id = -1;
    for (std::size_t at = first; at < text.size(); ++at) {
      node = child(*node, text[at]);
      if (node == nullptr) break;
      if (node->id >= 0) match = {.first = first, .last = at + 1, .id = node->id};
    }
    if (match.id >= 0) return true;
  }
  return false;
}

}  // namespace tandem
