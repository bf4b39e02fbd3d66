#pragma once
// Times of slices by which TeraPipe's programme cuts sequences where nothing was measured.

#include <cstdint>

#include "core/model/plan.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_layout.h"
#include "simulator/cost/slice_programme.h"

namespace tandem {

/// What one of `stages` equal stages takes for forward and backward of a part of each sequence of a
/// microbatch on the layout's first device, and, of several devices, for the transfers of both
/// between the two neighbours where they take longest. What is given outlives it.
SliceTime analytic_slice_time(const Plan& plan, const ClusterLayout& layout,
                              const AnalyticAssumptions& assumptions, std::int64_t stages);

}  // namespace tandem
