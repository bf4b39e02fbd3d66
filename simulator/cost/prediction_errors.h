#pragma once
// How far predictions are from what was measured, in one line.

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

/// Errors are prediction over measurement, less 1.
struct PredictionErrors {
  std::size_t rows = 0;
  double mean = 0.0, median = 0.0, percentile_80 = 0.0, percentile_95 = 0.0;  // of absolute values
  double bias = 0.0;   // mean of the errors themselves
  double worst = 0.0;  // of largest absolute value, with its sign
};

/// The k-th smallest of n absolute values is their percentile p where k = ceil(p n). REQUIRES: one
/// error at least.
PredictionErrors summary_of(const std::vector<double>& errors);

/// Spearman's; 0 where all values of either are equal. REQUIRES: as many of both, one at least.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace tandem
