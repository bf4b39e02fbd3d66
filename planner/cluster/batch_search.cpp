#include "planner/cluster/batch_search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace tandem {

std::vector<std::int64_t> doubled_batches(std::int64_t least, std::int64_t most) {
  TANDEM_CHECK(1 <= least && least <= most, least, most);
  std::vector<std::int64_t> batches;
  for (std::int64_t batch = least;; batch *= 2) {
    batches.push_back(batch);
    if (batch > most / 2) return batches;
  }
}

std::vector<std::int64_t> usual_batches(std::int32_t sequence) {
  constexpr std::uint64_t kLeastTokens = 1 << 19, kMostTokens = 1 << 24;
  const auto samples = [&](std::uint64_t tokens) {
    const std::uint64_t whole = tokens / static_cast<std::uint64_t>(sequence);
    return static_cast<std::int64_t>(std::bit_floor(std::max(whole, std::uint64_t{1})));
  };
  return doubled_batches(samples(kLeastTokens), samples(kMostTokens));
}

double BatchOutcome::value_of_a_sample() const {
  return answer.ranked.front().value / static_cast<double>(global_batch);
}

double BatchAnswer::least_of_a_sample() const {
  double least = std::numeric_limits<double>::infinity();
  for (const BatchOutcome& one : batches) {
    if (!one.answer.ranked.empty()) least = std::min(least, one.value_of_a_sample());
  }
  return least;
}

BatchAnswer find_batch(ClusterQuestion question, const std::vector<std::int64_t>& batches,
                       const std::function<bool()>& stop) {
  TANDEM_CHECK(question.objective != Objective::memory || batches.size() == 1);
  TANDEM_CHECK(!batches.empty() && std::ranges::is_sorted(batches));
  BatchAnswer found;
  for (const std::int64_t batch : batches) {
    if (!found.batches.empty() && stop && stop()) break;
    question.global_batch = batch;
    found.batches.push_back({batch, find_cluster_plans(question, stop)});
  }
  found.interrupted =
      found.batches.size() < batches.size() || found.batches.back().answer.interrupted;
  const double as_good = (1.0 + kAsGoodABatch) * found.least_of_a_sample();
  const auto chosen = std::ranges::find_if(found.batches, [as_good](const BatchOutcome& one) {
    return !one.answer.ranked.empty() && one.value_of_a_sample() <= as_good;
  });
  found.chosen = static_cast<std::size_t>(chosen - found.batches.begin());
  return found;
}

}  // namespace tandem
