#pragma once
// The constants of collective_model.h from measured all-reduces.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/model/collectives.h"

namespace tandem {

/// An all-reduce as it was measured. REQUIRES: more than one device, bytes and time above 0.
struct AllReduceMeasurement {
  CollectiveGroup group;
  Bytes bytes = 0;
  Duration time{};
};

/// Prediction over measurement, less 1.
double relative_error(const CollectiveConstants& constants,
                      const AllReduceMeasurement& measurement);
/// Mean of the absolute relative errors. REQUIRES: there are measurements.
double mean_error(const CollectiveConstants& constants,
                  std::span<const AllReduceMeasurement> measurements);

/// What measurements lack to say constants: enough within a node, or, where there are any, enough
/// over several. Empty: nothing.
std::string lacking(std::span<const AllReduceMeasurement> measurements);

/// The constants of least mean error: the logarithms of all six by Nelder and Mead's simplex, six
/// times anew around the best so far, from what the extremes of the measurements say. The same
/// every time. Those between nodes are 0 where there are no measurements of them. REQUIRES: nothing
/// is lacking.
CollectiveConstants fit_collectives(std::span<const AllReduceMeasurement> measurements);

/// Relative errors of what no fit has seen: of each fold by constants fitted to the others. `folds`
/// says which one each measurement is in. Of folds without which something is lacking, or nothing
/// is known of what they hold, there are none.
std::vector<std::optional<double>> held_out_errors(
    std::span<const AllReduceMeasurement> measurements, std::span<const std::size_t> folds);
/// Mean of their absolute values; empty: there are none.
std::optional<double> mean_of_known(std::span<const std::optional<double>> errors);

}  // namespace tandem
