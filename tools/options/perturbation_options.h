#pragma once
// --slow-device, --straggler and --degraded-link; --scenarios: how the time of a batch varies where
// ops jitter and devices straggle.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/study/perturbation.h"
#include "planner/study/uncertainty.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_perturbation_options(Options& options);

/// Throws UsageError.
std::vector<Perturbation> perturbations_of(const Options& options);

/// --scenarios, --jitter, --straggler-rate and --threads; the seed is --seed.
void add_uncertainty_options(Options& options);

/// Empty: no --scenarios. Throws UsageError.
std::optional<UncertaintyRequest> uncertainty_of(const Options& options);

/// --threads, or as many as there are cores. Throws UsageError.
int threads_of(const Options& options);

/// Whether this option of some schedules, --seed, is one of scenarios, too, which are asked for.
bool is_of_scenarios(const Options& options, std::string_view flag);

}  // namespace tandem::tools
