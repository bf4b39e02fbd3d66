#include "planner/search/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace tandem {

namespace {

/// So many stages that cost as much.
struct CostRun {
  std::int64_t cost = 0;
  std::int32_t stages = 0;
  friend auto operator<=>(const CostRun&, const CostRun&) = default;
};

/// Stage costs, largest first. Of two with the same number of stages the lexicographically smaller
/// is better, and stays so when both get the same further stage: what dynamic programming needs.
/// Most stages of a deep pipeline are alike, so equal ones are counted: where runs of one cost
/// differ in their number, the longer is followed by what the other has less, and so is greater.
using Costs = std::vector<CostRun>;

/// `rest` with one cost more.
void merge(const Costs& rest, std::int64_t cost, Costs& merged) {
  merged = rest;
  const auto place = std::ranges::lower_bound(merged, cost, std::greater<>(), &CostRun::cost);
  if (place != merged.end() && place->cost == cost)
    ++place->stages;
  else
    merged.insert(place, {cost, 1});
}

/// Where each stage may start in cuts whose costliest stage costs at most `most`.
struct StartWindows {
  std::int64_t most = 0;
  std::vector<std::int32_t> earliest, latest;  // of each stage, and where the last one ends
};

/// If stages might be empty, each had best be as long as it can be: what it leaves over never helps
/// those behind it. So no stage starts later than there, or, from the back, earlier; and no less is
/// enough than what is enough so.
class Windows {
 public:
  explicit Windows(const PartitionProblem& problem) : problem_(problem) {}

  /// Empty: there is no cut.
  std::optional<StartWindows> find() const {
    constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int32_t> latest = forwards(kAny);
    if (latest.back() != problem_.layers) return std::nullopt;
    std::int64_t low = -1, high = costliest(latest);
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      latest = forwards(middle);
      if (latest.back() == problem_.layers)
        high = std::min(middle, costliest(latest));
      else  // with less than the next layer costs any stage, all would end where they do
        low = std::max(middle, next_cost(latest) - 1);
    }
    // Where stages that may not be empty cost more, it is not known how much.
    const bool enough = filled(high);
    return of(enough ? high : kAny);
  }

 private:
  bool takes(LayerRange range, std::int32_t stage, std::int64_t most) const {
    const auto at = static_cast<std::size_t>(stage);
    return (!problem_.fits || problem_.fits(range, at)) && problem_.cost(range, at) <= most;
  }

  std::int64_t costliest(const std::vector<std::int32_t>& starts) const {
    std::int64_t most = 0;
    for (std::size_t stage = 0; stage + 1 < starts.size(); ++stage) {
      if (starts[stage] < starts[stage + 1])
        most = std::max(most, problem_.cost({starts[stage], starts[stage + 1]}, stage));
    }
    return most;
  }

  /// The least cost of a stage that goes a layer further than where these start and end.
  std::int64_t next_cost(const std::vector<std::int32_t>& starts) const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int32_t stage = 0; stage < problem_.depth; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      const LayerRange further{starts[at], starts[at + 1] + 1};
      if (further.last > problem_.layers || (problem_.fits && !problem_.fits(further, at)))
        continue;
      least = std::min(least, problem_.cost(further, at));
    }
    return least;
  }

  /// Where stages start if each is as long as `most` allows, and leaves as many layers as `kept`
  /// for each stage behind it. Ends before the last layer if that is not enough.
  std::vector<std::int32_t> forwards(std::int64_t most, std::int32_t kept = 0) const {
    std::vector<std::int32_t> starts{0};
    std::int32_t before = 0;
    for (std::int32_t stage = 0; stage < problem_.depth; ++stage) {
      const std::int32_t first = starts.back(),
                         last = problem_.layers - kept * (problem_.depth - 1 - stage);
      starts.push_back(first + longest(first, last, stage, most, before));
      before = starts.back() - first;
    }
    return starts;
  }

  /// Layers of the longest range from `first` up to `last` at most that the stage takes: most often
  /// as many as the stage before has, where the search begins.
  std::int32_t longest(std::int32_t first, std::int32_t last, std::int32_t stage, std::int64_t most,
                       std::int32_t before) const {
    std::int32_t end = std::clamp(first + before, first, std::max(first, last));
    while (end > first && !takes({first, end}, stage, most)) --end;
    if (end < first + before) return end - first;
    while (end < last && takes({first, end + 1}, stage, most)) ++end;
    return end - first;
  }

  bool filled(std::int64_t most) const {
    const std::vector<std::int32_t> starts = forwards(most, 1);
    return starts.back() == problem_.layers && std::ranges::adjacent_find(starts) == starts.end();
  }

  StartWindows of(std::int64_t most) const {
    StartWindows windows{most, {problem_.layers}, forwards(most)};
    for (std::int32_t stage = problem_.depth; stage-- > 0;) {
      const std::int32_t last = windows.earliest.front();
      std::int32_t first = last;
      while (first > 0 && takes({first - 1, last}, stage, most)) --first;
      windows.earliest.insert(windows.earliest.begin(), first);
    }
    for (std::int32_t stage = 0; stage <= problem_.depth; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      windows.earliest[at] = std::max(windows.earliest[at], stage);
      windows.latest[at] = std::min(windows.latest[at], problem_.layers - (problem_.depth - stage));
    }
    return windows;
  }

  const PartitionProblem& problem_;
};

/// The best cuts of the layers from some layer on into the stages from some stage on.
class SuffixCuts {
 public:
  SuffixCuts(const PartitionProblem& problem, const StartWindows& windows)
      : problem_(problem), windows_(windows), best_{Costs{}}, first_(problem.layers) {}

  /// Goes from the stages behind `stage` to those from it on.
  void prepend(std::size_t stage) {
    const std::int32_t earliest = windows_.earliest[stage], latest = windows_.latest[stage];
    const auto starts = static_cast<std::size_t>(std::max(0, latest - earliest + 1));
    std::vector<std::int32_t> ends(starts, 0);
    std::vector<std::optional<Costs>> best(starts);
    for (std::size_t i = 0; i < starts; ++i)
      ends[i] = extend(stage, earliest + static_cast<std::int32_t>(i), best[i]);
    best_ = std::move(best);
    first_ = earliest;
    ends_.push_back(std::move(ends));
  }

  /// REQUIRES: all stages are prepended.
  std::optional<std::vector<LayerRange>> stages() const {
    if (best_.empty() || !best_.front()) return std::nullopt;
    std::vector<LayerRange> ranges;
    std::int32_t first = 0;
    for (std::size_t stage = 0; stage < ends_.size(); ++stage) {
      const std::vector<std::int32_t>& ends = ends_[ends_.size() - 1 - stage];
      ranges.push_back({first, ends[static_cast<std::size_t>(first - windows_.earliest[stage])]});
      first = ranges.back().last;
    }
    return ranges;
  }

 private:
  /// The best end of a stage that starts at `first`.
  std::int32_t extend(std::size_t stage, std::int32_t first, std::optional<Costs>& best) {
    std::int32_t best_end = 0;
    for (std::int32_t end = std::max(first + 1, first_);
         end < first_ + static_cast<std::int32_t>(best_.size()); ++end) {
      const LayerRange range{first, end};
      if (problem_.fits && !problem_.fits(range, stage)) break;
      const std::optional<Costs>& rest = best_[static_cast<std::size_t>(end - first_)];
      if (!rest) continue;
      const std::int64_t cost = problem_.cost(range, stage);
      TANDEM_CHECK(cost >= 0, cost, first, end);
      if (cost > windows_.most || (best && cost > best->front().cost)) break;
      if (best && !rest->empty() && rest->front().cost > best->front().cost) continue;
      merge(*rest, cost, merged_);
      if (best && merged_ >= *best) continue;
      best = merged_;
      best_end = end;
    }
    return best_end;
  }

  const PartitionProblem& problem_;
  const StartWindows& windows_;
  std::vector<std::optional<Costs>> best_;       // by where the stages behind start
  std::int32_t first_ = 0;                       // start of the first of these
  std::vector<std::vector<std::int32_t>> ends_;  // of a stage's range, by start; last stage first
  Costs merged_;
};

}  // namespace

std::optional<std::vector<LayerRange>> partition(const PartitionProblem& problem) {
  TANDEM_CHECK(problem.depth >= 1 && problem.layers >= 1, problem.depth, problem.layers);
  if (problem.depth > problem.layers) return std::nullopt;
  const std::optional<StartWindows> windows = Windows(problem).find();
  if (!windows) return std::nullopt;
  SuffixCuts cuts(problem, *windows);
  for (auto stage = static_cast<std::size_t>(problem.depth); stage-- > 0;) cuts.prepend(stage);
  return cuts.stages();
}

std::optional<std::vector<LayerRange>> partition_at(const std::vector<std::int32_t>& boundaries,
                                                    const PartitionProblem& problem) {
  if (std::ssize(boundaries) == problem.layers + 1) return partition(problem);  // all of them
  const auto layers = [&boundaries](LayerRange between) {
    return LayerRange{boundaries[static_cast<std::size_t>(between.first)],
                      boundaries[static_cast<std::size_t>(between.last)]};
  };
  PartitionProblem of_parts{.layers = static_cast<std::int32_t>(boundaries.size()) - 1,
                            .depth = problem.depth,
                            .cost = [&](LayerRange range, std::size_t stage) {
                              return problem.cost(layers(range), stage);
                            }};
  if (problem.fits) {
    of_parts.fits = [&](LayerRange range, std::size_t stage) {
      return problem.fits(layers(range), stage);
    };
  }
  auto cut = partition(of_parts);
  if (cut) std::ranges::transform(*cut, cut->begin(), layers);
  return cut;
}

}  // namespace tandem
