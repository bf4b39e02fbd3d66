#include "simulator/cost/slice_programme.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace tandem {

namespace {

/// A way from the sequence's beginning to each end: the fastest of those whose slices take no
/// longer than some bound.
struct Way {
  Duration sum = Duration::max();
  std::size_t from = 0;
};

class SliceProgramme {
 public:
  SliceProgramme(std::int32_t tokens, std::int32_t step, const SliceTime& time) {
    for (std::int64_t end = 0; end < tokens; end += step)
      ends_.push_back(static_cast<std::int32_t>(end));
    ends_.push_back(tokens);
    times_.resize(ends_.size());
    for (std::size_t to = 1; to < ends_.size(); ++to) {
      for (std::size_t from = 0; from < to; ++from)
        times_[to].push_back(time({ends_[to] - ends_[from], ends_[from]}));
    }
  }

  /// All times of slices, ascending, each once.
  std::vector<Duration> bounds() const {
    std::vector<Duration> all;
    for (const std::vector<Duration>& row : times_) all.insert(all.end(), row.begin(), row.end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  /// No slice takes longer than `bound`. No lengths: no way leads to the end.
  FastestSlices within(Duration bound, std::int64_t stages, std::int64_t microbatches) const {
    std::vector<Way> ways(ends_.size());
    ways[0].sum = {};
    for (std::size_t to = 1; to < ends_.size(); ++to) {
      for (std::size_t from = 0; from < to; ++from) {
        const Duration time = times_[to][from];
        if (time > bound || ways[from].sum == Duration::max()) continue;
        if (ways[from].sum + time < ways[to].sum) ways[to] = {ways[from].sum + time, from};
      }
    }
    FastestSlices found;
    if (ways.back().sum == Duration::max()) return found;
    Duration longest{};
    for (std::size_t to = ends_.size() - 1; to > 0; to = ways[to].from) {
      found.lengths.push_back(ends_[to] - ends_[ways[to].from]);
      longest = std::max(longest, times_[to][ways[to].from]);
    }
    std::ranges::reverse(found.lengths);
    found.value = microbatches * ways.back().sum + (stages - 1) * longest;
    return found;
  }

 private:
  std::vector<std::int32_t> ends_;            // where slices may end
  std::vector<std::vector<Duration>> times_;  // of the slice to an end from each before it
};

}  // namespace

FastestSlices fastest_slices(std::int32_t tokens, std::int32_t step, std::int64_t stages,
                             std::int64_t microbatches, const SliceTime& time) {
  TANDEM_CHECK(tokens > 0 && step > 0 && stages > 0 && microbatches > 0, tokens, step, stages,
               microbatches);
  const SliceProgramme programme(tokens, step, time);
  FastestSlices best;
  for (const Duration bound : programme.bounds()) {
    // Slices of which one takes so long can't be better, nor those with longer ones.
    if (!best.lengths.empty() && (microbatches + stages - 1) * bound >= best.value) break;
    FastestSlices found = programme.within(bound, stages, microbatches);
    if (found.lengths.empty()) continue;
    if (best.lengths.empty() || found.value < best.value) best = std::move(found);
  }
  return best;
}

FastestSlices fastest_slices_of(const ModelSpec& model, std::int32_t multiple, std::int64_t stages,
                                std::int64_t microbatches, const SliceTime& time) {
  constexpr std::int32_t kMostEnds = 64, kTokens = 8;
  slice_lengths({.count = 2}, model);  // whether it can be sliced at all
  const std::int32_t unit = std::lcm(kTokens, multiple);
  const std::int32_t least = (model.sequence + kMostEnds - 1) / kMostEnds;
  const std::int32_t step = (least + unit - 1) / unit * unit;
  return fastest_slices(model.sequence, step, stages, microbatches, time);
}

}  // namespace tandem
