#pragma once
// Where `plan` writes its answer, whatever it was asked of.

#include <string>

#include "core/model/plan.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// The path of an option's file as the plan names it; empty: no plan is written, or the option is
/// not given.
std::string path_in_plan(const Options& options, const char* option);

void write_plan(const std::string& path, const Plan& plan);

}  // namespace tandem::tools
