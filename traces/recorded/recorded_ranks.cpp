#include "traces/recorded/recorded_ranks.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>

namespace tandem {

namespace {

/// Which op of its rank it is. Those without a number of their own are told by their order.
using OpKey = std::tuple<OpKind, bool, std::uint16_t, std::int64_t, std::size_t>;

std::map<OpKey, RecordedOp> by_key(const std::vector<RecordedOp>& ops) {
  std::map<OpKey, RecordedOp> found;
  std::map<OpKey, std::size_t> seen;
  for (const RecordedOp& op : ops) {
    OpKey key{op.kind, op.receives, op.chunk, op.microbatch, 0};
    std::get<std::size_t>(key) = seen[key]++;
    found.emplace(key, op);
  }
  return found;
}

}  // namespace

JoinedRanks join_ranks(const std::vector<std::vector<RecordedOp>>& ranks) {
  const auto leader =
      std::ranges::max_element(ranks, {}, [](const auto& ops) { return ops.size(); });
  JoinedRanks joined{.ops = *leader};
  if (ranks.size() == 1) return joined;
  std::map<OpKey, RecordedOp> whole = by_key(*leader);
  for (auto rank = ranks.begin(); rank != ranks.end(); ++rank) {
    if (rank == leader) continue;
    const std::map<OpKey, RecordedOp> own = by_key(*rank);
    if (!std::ranges::equal(std::views::keys(own), std::views::keys(whole))) {
      ++joined.left_out;
      continue;
    }
    auto op = own.begin();
    for (auto& [key, all] : whole) {
      all.start = std::max(all.start, op->second.start);
      all.end = std::max(all.end, op->second.end);
      ++op;
    }
  }
  joined.ops.clear();
  for (const auto& [key, op] : whole) joined.ops.push_back(op);
  std::ranges::stable_sort(joined.ops, {},
                           [](const RecordedOp& op) { return std::pair(op.end, op.start); });
  return joined;
}

}  // namespace tandem
