#include "traces/chrome/flow_binding.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace tandem {
namespace {

std::int64_t rounded(std::int64_t time, std::int64_t unit) { return (time + unit / 2) / unit; }

bool within(const TraceSlice& inner, const TraceSlice& outer, std::int64_t unit) {
  return rounded(inner.start, unit) >= rounded(outer.start, unit) &&
         rounded(inner.end, unit) <= rounded(outer.end, unit);
}

bool holds(const TraceSlice& slice, std::int64_t time, bool end_included) {
  const bool instant = slice.start == slice.end;  // its two ends are the same binary fraction
  return slice.start <= time &&
         (time < slice.end || (time == slice.end && (end_included || instant)));
}

}  // namespace

NestedSlices::NestedSlices(const std::vector<TraceSlice>& slices, std::int64_t unit) {
  std::size_t depth = 0;  // of levels whose last slice may hold the next one
  for (const TraceSlice& slice : slices) {
    while (depth > 0 && !within(slice, levels_[depth - 1].back().slice, unit)) --depth;
    if (levels_.size() < depth + 2) levels_.resize(depth + 2);
    const std::size_t inside = levels_[depth + 1].size();
    levels_[depth].push_back({slice, inside, inside});
    if (depth > 0) levels_[depth - 1].back().last_inside = levels_[depth].size();
    ++depth;
    starts_.push_back(slice.start);
    reach_.push_back(reach_.empty() ? slice.end : std::max(reach_.back(), slice.end));
  }
}

std::optional<std::int64_t> NestedSlices::found(std::int64_t time, bool end_included) const {
  std::optional<std::int64_t> event;
  std::size_t first = 0, last = levels_.empty() ? 0 : levels_[0].size();
  for (const std::vector<Node>& level : levels_) {
    const std::span<const Node> nodes(level.data() + first, last - first);
    const auto at = std::ranges::lower_bound(nodes, time, {},
                                             [](const Node& node) { return node.slice.start; });
    // The one before comes first, as its end may be where the next one starts.
    const Node* around = nullptr;
    if (at != nodes.begin() && holds(std::prev(at)->slice, time, end_included))
      around = &*std::prev(at);
    else if (at != nodes.end() && holds(at->slice, time, end_included))
      around = &*at;
    if (around == nullptr) break;
    event = around->slice.event;
    first = around->first_inside;
    last = around->last_inside;
  }
  return event;
}

FlowBinding NestedSlices::bind(std::int64_t time) const {
  const auto one = found(time, false), other = found(time, true);
  if (one && other) return one == other ? FlowBinding::bound : FlowBinding::either;
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), time);
  const auto before = static_cast<std::size_t>(after - starts_.begin());
  const bool there = before > 0 && reach_[before - 1] >= time;
  return there ? FlowBinding::hidden : FlowBinding::outside;
}

}  // namespace tandem
