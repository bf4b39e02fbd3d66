#pragma once
// --slow-device, --straggler and --degraded-link; --scenarios: how the time of a batch varies where
// ops jitter and devices straggle.

#include <optional>
#include <span>

#include "planner/study/uncertainty.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

std::span<const ScenarioOption> perturbation_rows();

/// --scenarios, --jitter, --straggler-rate and --threads; the seed is --seed.
void add_uncertainty_options(Options& options);

/// Empty: no --scenarios. Throws UsageError.
std::optional<UncertaintyRequest> uncertainty_of(const Options& options);

/// --threads, or as many as there are cores. Throws UsageError.
int threads_of(const Options& options);

}  // namespace tandem::tools
