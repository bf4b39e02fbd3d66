#pragma once
// find_batch(): the global batch of a model on a cluster, where nobody gave one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/cluster/cluster_search.h"

namespace tandem {

/// A batch that costs a sample at most this share more than the least is as good: larger ones gain
/// little, and make fewer updates of the same samples.
inline constexpr double kAsGoodABatch = 0.02;

/// Least, twice as much, … up to `most`. REQUIRES: 1 ≤ least ≤ most.
std::vector<std::int64_t> doubled_batches(std::int64_t least, std::int64_t most);

/// Batches of half a million to 16 million tokens, as language models are trained with (GPT-3,
/// arXiv 2005.14165, table 2.1: 0.5 to 3.2 million; Llama 3.1 405B, arXiv 2407.21783, section 3.4:
/// 4 to 16 million), in powers of two of samples.
std::vector<std::int64_t> usual_batches(std::int32_t sequence);

/// What was found for one of them.
struct BatchOutcome {
  std::int64_t global_batch = 1;
  ClusterAnswer answer;  // without plans: none fits

  /// Of the best plan: seconds or US dollars a sample; of the least memory nothing that says much.
  /// REQUIRES: there is one.
  double value_of_a_sample() const;
};

struct BatchAnswer {
  std::vector<BatchOutcome> batches;  // ascending, all that were asked unless it was stopped
  std::size_t chosen = 0;  // the smallest that is as good as the best; their count: none fits
  bool interrupted = false;

  bool has_plan() const { return chosen < batches.size(); }
  /// The least value of a sample of any batch. Infinite: none fits.
  double least_of_a_sample() const;
};

/// Plans of each of `batches`, whatever batch the question has. REQUIRES: one or more, ascending;
/// for the least memory, which the smallest has, just one. Throws and ends as find_cluster_plans().
BatchAnswer find_batch(ClusterQuestion question, const std::vector<std::int64_t>& batches,
                       const std::function<bool()>& stop = {});

}  // namespace tandem
