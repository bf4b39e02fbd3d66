#include "executor/data/tokenizer/byte_pairs.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {
namespace {

// Up to here looking at all pairs for each merge is faster than a heap.
constexpr std::size_t kShortWord = 48;
constexpr std::int32_t kNoMerge = std::numeric_limits<std::int32_t>::max();

/// A part of a long word: a list whose links are positions of first bytes.
struct Part {
  std::int32_t id;  // -1: it was joined to the one before
  std::uint32_t previous, next;
};

/// Waits to be made; stale where `id` and `right` are no longer what lies there.
struct Candidate {
  std::int32_t rank;
  std::uint32_t at;
  std::int32_t left, right, joined;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, at) > std::tie(other.rank, other.at);
  }
};

}  // namespace

BytePairs::BytePairs(std::vector<std::pair<std::string, std::int32_t>> tokens,
                     std::span<const MergeRow> merges, bool whole_words)
    : tokens_(std::move(tokens)), whole_words_(whole_words) {
  std::sort(tokens_.begin(), tokens_.end());
  std::int32_t most = 0;
  of_byte_.fill(-1);
  for (const auto& [bytes, id] : tokens_) {
    TANDEM_CHECK(id >= 0 && id < kMostTokenIds, id);
    most = std::max(most, id);
    if (bytes.size() == 1) of_byte_[static_cast<unsigned char>(bytes[0])] = id;
  }
  first_merge_.assign(static_cast<std::size_t>(most) + 2, 0);
  for (const MergeRow& row : merges) ++first_merge_[static_cast<std::size_t>(row.left) + 1];
  std::partial_sum(first_merge_.begin(), first_merge_.end(), first_merge_.begin());
  std::vector<std::uint32_t> place(first_merge_.begin(), first_merge_.end() - 1);
  merges_.resize(merges.size());
  std::int32_t rank = 0;
  for (const MergeRow& row : merges)
    merges_[place[static_cast<std::size_t>(row.left)]++] = {row.right, rank++, row.joined};
  for (std::size_t left = 0; left + 1 < first_merge_.size(); ++left) {
    std::sort(merges_.begin() + first_merge_[left], merges_.begin() + first_merge_[left + 1],
              [](const Merge& a, const Merge& b) { return a.right < b.right; });
  }
}

const BytePairs::Merge* BytePairs::merge_of(std::int32_t left, std::int32_t right) const {
  const Merge* const first = merges_.data() + first_merge_[static_cast<std::size_t>(left)];
  const Merge* const last = merges_.data() + first_merge_[static_cast<std::size_t>(left) + 1];
  const Merge* const found = std::lower_bound(
      first, last, right, [](const Merge& merge, std::int32_t id) { return merge.right < id; });
  return found != last && found->right == right ? found : nullptr;
}

std::optional<std::int32_t> BytePairs::find(std::string_view bytes) const {
  const auto found =
      std::lower_bound(tokens_.begin(), tokens_.end(), bytes,
                       [](const auto& token, std::string_view key) { return token.first < key; });
  if (found == tokens_.end() || found->first != bytes) return std::nullopt;
  return found->second;
}

void BytePairs::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.size() > kLongestWord) {
    throw InputError(fmt::format("a word of {} bytes is too long: at most {} are supported",
                                 word.size(), kLongestWord));
  }
  if (whole_words_) {
    if (const std::optional<std::int32_t> id = find(word)) return ids.push_back(*id);
  }
  if (word.size() <= kShortWord)
    encode_short(word, ids);
  else
    encode_long(word, ids);
}

void BytePairs::encode_short(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kShortWord> parts{}, ranks{}, joined{};
  std::size_t count = word.size();
  for (std::size_t i = 0; i < count; ++i) parts[i] = of_byte_[static_cast<unsigned char>(word[i])];
  const auto look = [&](std::size_t i) {
    const Merge* const merge = merge_of(parts[i], parts[i + 1]);
    ranks[i] = merge != nullptr ? merge->rank : kNoMerge;
    joined[i] = merge != nullptr ? merge->joined : 0;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    const auto pairs = static_cast<std::ptrdiff_t>(count - 1);
    const auto least = std::min_element(ranks.begin(), ranks.begin() + pairs);
    if (*least == kNoMerge) break;
    const auto at = static_cast<std::size_t>(least - ranks.begin());
    parts[at] = joined[at];
    std::copy(parts.begin() + at + 2, parts.begin() + count, parts.begin() + at + 1);
    std::copy(ranks.begin() + at + 1, ranks.begin() + pairs, ranks.begin() + at);
    std::copy(joined.begin() + at + 1, joined.begin() + pairs, joined.begin() + at);
    --count;
    if (at > 0) look(at - 1);
    if (at + 1 < count) look(at);
  }
  ids.insert(ids.end(), parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count));
}

void BytePairs::encode_long(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto size = static_cast<std::uint32_t>(word.size());
  std::vector<Part> parts;
  parts.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i)
    parts.push_back({of_byte_[static_cast<unsigned char>(word[i])], i - 1, i + 1});
  std::vector<Candidate> storage;
  storage.reserve(size);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates(
      {}, std::move(storage));
  const auto look = [&](std::uint32_t at) {
    const std::uint32_t next = parts[at].next;
    if (next >= size) return;
    const Merge* const merge = merge_of(parts[at].id, parts[next].id);
    if (merge != nullptr)
      candidates.push({merge->rank, at, parts[at].id, parts[next].id, merge->joined});
  };
  for (std::uint32_t i = 0; i + 1 < size; ++i) look(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Part& part = parts[best.at];
    // A part only grows: where both ids are the same, so are the bytes that they cover.
    if (part.id != best.left || part.next >= size || parts[part.next].id != best.right) continue;
    Part& gone = parts[part.next];
    part.id = best.joined;
    part.next = gone.next;
    gone.id = -1;
    if (part.next < size) parts[part.next].previous = best.at;
    if (best.at > 0) look(part.previous);
    look(best.at);
  }
  for (std::uint32_t i = 0; i < size; i = parts[i].next) ids.push_back(parts[i].id);
}

}  // namespace tandem
