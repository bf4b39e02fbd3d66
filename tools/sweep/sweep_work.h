#pragma once
// The rows of a sweep, computed by several threads.

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "tools/sweep/sweep_row.h"
#include "tools/sweep/sweep_space.h"

namespace tandem::tools {

struct ComputedRow {
  SweepRow row;
  std::string line;  // of the JSON Lines file
};

/// Computes the configurations `which`, and hands them over one at a time in this order, whatever
/// the number of threads. After a stop those begun are finished and handed over. What `take`
/// throws ends it, and is thrown.
void compute_rows(const SweepSpace& space, const std::vector<std::size_t>& which, int threads,
                  const std::stop_token& stop, const std::function<void(ComputedRow)>& take);

}  // namespace tandem::tools
