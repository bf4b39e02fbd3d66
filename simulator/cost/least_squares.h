#pragma once
// Least squares of a handful of unknowns: Levenberg and Marquardt's damped Gauss-Newton steps.

#include <functional>
#include <span>
#include <vector>

namespace tandem {

/// What is to be small, at a point. REQUIRES: always as many, finite.
using Residuals = std::function<std::vector<double>(std::span<const double> point)>;

/// The point of least sum of squares that steps downhill from `start` lead to; derivatives by
/// differences, damping by Marquardt's scaled diagonal ("An algorithm for least-squares estimation
/// of nonlinear parameters", 1963). Ends when a step gains less than a hundred-thousandth.
std::vector<double> least_squares(const Residuals& residuals, std::vector<double> start,
                                  int most_steps);

}  // namespace tandem
