#pragma once
// The optimizer of a training run and its learning-rate schedule, as options.

#include <cstdint>

#include "executor/stage/optimizer.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// What --optimizer names: adamw, momentum or sgd.
OptimizerKind optimizer_kind(const OptionValue& value);

/// --learning-rate, --lr-schedule and what goes with it, --weight-decay.
void add_optimizer_options(Options& options);

/// For a run of `steps` updates. Throws UsageError for an option that the schedule does not read.
OptimizerConfig optimizer_config(const Options& options, OptimizerKind kind, std::int64_t steps);

}  // namespace tandem::tools
