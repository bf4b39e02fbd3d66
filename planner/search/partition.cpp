#include "planner/search/partition.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace tandem {

namespace {

/// Stage costs, largest first. Of two with the same number of stages the lexicographically smaller
/// is better, and stays so when both get the same further stage: what dynamic programming needs.
using Costs = std::vector<std::int64_t>;

/// `rest` with one cost more.
void merge(const Costs& rest, std::int64_t cost, Costs& merged) {
  const auto place = std::ranges::lower_bound(rest, cost, std::greater<>());
  merged.assign(rest.begin(), place);
  merged.push_back(cost);
  merged.insert(merged.end(), place, rest.end());
}

/// The best cuts of the layers from some layer on into the stages from some stage on.
class SuffixCuts {
 public:
  explicit SuffixCuts(const PartitionProblem& problem)
      : problem_(problem), layers_(static_cast<std::size_t>(problem.layers)) {
    best_.resize(layers_ + 1);
    best_[layers_] = Costs{};
  }

  /// Goes from the stages behind `stage` to those from it on.
  void prepend(std::size_t stage) {
    std::vector<std::int32_t> ends(layers_ + 1, 0);
    std::vector<std::optional<Costs>> best(layers_ + 1);
    const auto behind = static_cast<std::size_t>(problem_.depth) - 1 - stage;
    for (std::size_t first = stage; first + behind < layers_; ++first)
      ends[first] = extend(stage, static_cast<std::int32_t>(first), best[first]);
    best_ = std::move(best);
    ends_.push_back(std::move(ends));
  }

  std::optional<std::vector<LayerRange>> stages() const {
    if (!best_.front()) return std::nullopt;
    std::vector<LayerRange> ranges;
    std::int32_t first = 0;
    for (auto ends = ends_.rbegin(); ends != ends_.rend(); ++ends) {
      ranges.push_back({first, (*ends)[static_cast<std::size_t>(first)]});
      first = ranges.back().last;
    }
    return ranges;
  }

 private:
  /// The best end of a stage that starts at `first`.
  std::int32_t extend(std::size_t stage, std::int32_t first, std::optional<Costs>& best) {
    const bool last = stage + 1 == static_cast<std::size_t>(problem_.depth);
    std::int32_t best_end = 0;
    for (std::int32_t end = last ? problem_.layers : first + 1; end <= problem_.layers; ++end) {
      const LayerRange range{first, end};
      if (problem_.fits && !problem_.fits(range, stage)) break;
      const std::optional<Costs>& rest = best_[static_cast<std::size_t>(end)];
      if (!rest) continue;
      const std::int64_t cost = problem_.cost(range, stage);
      TANDEM_CHECK(cost >= 0, cost, first, end);
      if (best && cost > best->front()) break;
      if (best && !rest->empty() && rest->front() > best->front()) continue;
      merge(*rest, cost, merged_);
      if (best && merged_ >= *best) continue;
      best = merged_;
      best_end = end;
    }
    return best_end;
  }

  const PartitionProblem& problem_;
  const std::size_t layers_;
  std::vector<std::optional<Costs>> best_;  // by first layer
  std::vector<std::vector<std::int32_t>>
      ends_;  // of the stage's range, by first layer; last stage first
  Costs merged_;
};

}  // namespace

std::optional<std::vector<LayerRange>> partition(const PartitionProblem& problem) {
  TANDEM_CHECK(problem.depth >= 1 && problem.layers >= 1, problem.depth, problem.layers);
  if (problem.depth > problem.layers) return std::nullopt;
  SuffixCuts cuts(problem);
  for (auto stage = static_cast<std::size_t>(problem.depth); stage-- > 0;) cuts.prepend(stage);
  return cuts.stages();
}

}  // namespace tandem
