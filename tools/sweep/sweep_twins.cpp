#include "tools/sweep/sweep_twins.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "core/base/utf8.h"

namespace tandem::tools {

SweepTwins::SweepTwins(const std::vector<SweepRow>& rows)
    : rows_(rows), first_(rows.size()), others_(rows.size()) {
  std::iota(first_.begin(), first_.end(), std::size_t{0});
  std::vector<std::size_t> order = first_;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return rows[a].index < rows[b].index; });
  std::unordered_map<std::uint64_t, std::size_t> known;
  for (const std::size_t place : order) {
    if (!rows[place].simulated()) continue;
    const auto [at, added] = known.emplace(rows[place].plan, place);
    if (added) continue;
    first_[place] = at->second;
    others_[at->second].push_back(place);
    ++folded_;
  }
}

std::string SweepTwins::values(std::size_t place, std::size_t axis) const {
  std::vector<std::string> values{rows_[place].values[axis]};
  for (const std::size_t other : others_[place]) {
    const std::string& value = rows_[other].values[axis];
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMost); ++i)
    text += (i == 0 ? "" : " = ") + printable_line(values[i]);
  return values.size() > kMost ? text + " = …" : text;
}

}  // namespace tandem::tools
