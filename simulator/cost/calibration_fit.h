#pragma once
// The constants of core/model/calibration.h from measured iterations, and a naive fit to hold them
// to.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/import/iterations.h"
#include "core/model/calibration.h"
#include "simulator/cost/iteration_model.h"

namespace tandem {

/// Which rows of a file; and the seconds measured, of all of them.
using Rows = std::vector<std::size_t>;
using Seconds = std::vector<double>;

Seconds seconds_of(const std::vector<MeasuredIteration>& measured);

/// All of `count` rows in an order that the seed says, the same on every machine.
Rows shuffled_rows(std::size_t count, std::uint64_t seed);

/// Fewest rows that constants are fitted to; those that so few say nothing of keep the guess.
inline constexpr std::size_t kLeastRows = 20;

/// The constants of least mean error: of the logarithm of prediction over measurement, squared
/// below a fiftieth and as it is far above, so that a few odd rows don't bend the rest. They begin
/// with a guess, which holds where the rows say nothing of a constant: an e-fold away from it
/// counts as a row that is off by a fiftieth. The same every time. REQUIRES: at least kLeastRows
/// rows.
Calibration fit_calibration(const IterationModel& model, const Seconds& measured, const Rows& rows);

/// Prediction over measurement, less 1, of each row.
std::vector<double> relative_errors(const IterationModel& model, const Calibration& calibration,
                                    const Seconds& measured, const Rows& rows);

/// Mean of the absolute values. REQUIRES: there are any.
double mean_absolute(std::span<const double> errors);

/// Eight coefficients of a sum that knows no schedule, no roofline and no host: 1; a pipeline's
/// turns; and in each turn the blocks of a stage, their flops, their tokens' channels, the same
/// where layers are shared, and the head's flops; a device's parameters; the same where replicas
/// sum them.
inline constexpr std::size_t kNaiveCoefficients = 8;
using NaiveFit = std::array<double, kNaiveCoefficients>;

/// Least squared relative errors. REQUIRES: at least kNaiveCoefficients rows.
NaiveFit fit_naive(const std::vector<MeasuredIteration>& all, const Seconds& measured,
                   const Rows& rows);
std::vector<double> relative_errors(const NaiveFit& fit, const std::vector<MeasuredIteration>& all,
                                    const Seconds& measured, const Rows& rows);

}  // namespace tandem
