#pragma once
// What a training holds at once, known before its first step.

#include <cstdint>

#include "executor/checkpoint/kept_tensors.h"
#include "planner/study/prepared_plan.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// Of a run of `train` with these options: says it where it is much, throws InfeasibleError where
/// this process can't have it. At least so much is needed: pipelines, where this machine's memory
/// holds them, and reference are held one after the other, all else beside them.
/// `kept`: what its checkpoints have, where it keeps any. `share`: of the devices, on this machine.
/// `in_memory`: bytes of copies of its state.
void check_training_need(const PreparedPlan& prepared, std::int64_t steps, const Options& options,
                         const std::vector<KeptTensor>& kept, double share, double in_memory);

}  // namespace tandem::tools
