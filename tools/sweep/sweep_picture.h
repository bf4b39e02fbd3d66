#pragma once
// Pictures of a sweep.

#include <optional>
#include <string>
#include <vector>

#include "tools/print/plot.h"
#include "tools/sweep/sweep_row.h"

namespace tandem::tools {

/// What a metric needs for what it costs in memory: every configuration a point, a series for each
/// value of `by`, hollow what does not fit, numbered those that no other beats in both. Of
/// activations where no bytes are known.
Plot frontier_plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows,
                   std::size_t metric, std::optional<std::size_t> by);

/// The best by a metric, of those that work, over the values of the axis `over`; a line for each
/// value of the axis `by`.
Plot lines_plot(const SweepIdentity& sweep, const std::vector<SweepRow>& rows, std::size_t metric,
                std::size_t over, std::optional<std::size_t> by);

}  // namespace tandem::tools
