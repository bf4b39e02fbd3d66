#include "simulator/cost/prediction_errors.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/check.h"

namespace tandem {

namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The place of each among all, from 0; of equals the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end()), ranks;
  std::ranges::sort(sorted);
  for (const double value : values) {
    const auto [first, last] = std::ranges::equal_range(sorted, value);
    ranks.push_back(0.5 *
                    static_cast<double>((first - sorted.begin()) + (last - sorted.begin()) - 1));
  }
  return ranks;
}

/// Pearson's; of values without any spread 0.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
}

}  // namespace

PredictionErrors summary_of(const std::vector<double>& errors) {
  TANDEM_CHECK(!errors.empty());
  std::vector<double> sizes;
  for (const double error : errors) sizes.push_back(std::abs(error));
  std::ranges::sort(sizes);
  const auto percentile = [&](double of) {
    return sizes[static_cast<std::size_t>(std::ceil(of * static_cast<double>(sizes.size()))) - 1];
  };
  return {.rows = errors.size(),
          .mean = mean_of(sizes),
          .median = percentile(0.5),
          .percentile_80 = percentile(0.8),
          .percentile_95 = percentile(0.95),
          .bias = mean_of(errors),
          .worst = *std::ranges::max_element(errors, {}, [](double e) { return std::abs(e); })};
}

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  TANDEM_CHECK(!a.empty() && a.size() == b.size(), a.size(), b.size());
  return correlation(ranks_of(a), ranks_of(b));
}

}  // namespace tandem
