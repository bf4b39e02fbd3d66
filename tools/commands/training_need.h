#pragma once
// What a training holds at once, known before its first step.

#include <cstdint>

#include "core/base/units.h"
#include "planner/study/prepared_plan.h"

namespace tandem::tools {

/// What of a training takes memory.
struct TrainingParts {
  std::int64_t steps = 1;
  bool pipelines = true;  // trained on this machine's memory, not on GPUs
  bool reference = false;
  bool hashes = false;  // of each tensor after each update, of the pipelines and of the reference
  bool timelines = false, predicted = false;  // measured ones; and the simulated one
};

/// At least so much: pipelines and reference are held one after the other, all else beside them.
Bytes training_need(const PreparedPlan& prepared, const TrainingParts& parts);

}  // namespace tandem::tools
