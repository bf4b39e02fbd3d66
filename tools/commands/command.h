#pragma once
// A subcommand: a file, two functions, a row in the table of main.cpp.

#include "core/import/iterations.h"
#include "tools/cli/command.h"

namespace tandem::tools {

using RunCommand = int(const Options& options);
using DeclareOptions = Options();

RunCommand run_calibrate, run_catalog, run_check, run_checkpoint, run_compare, run_completion,
    run_doctor, run_evaluate, run_explain, run_export, run_generate, run_import, run_launch,
    run_man, run_plan, run_profile, run_replay, run_schedule, run_simulate, run_sweep,
    run_sweep_merge, run_tokens, run_trace, run_train, run_validate, run_version;
DeclareOptions options_of_calibrate, options_of_catalog, options_of_check, options_of_checkpoint,
    options_of_compare, options_of_completion, options_of_doctor, options_of_evaluate,
    options_of_explain, options_of_export, options_of_generate, options_of_import,
    options_of_launch, options_of_man, options_of_plan, options_of_profile, options_of_replay,
    options_of_schedule, options_of_simulate, options_of_sweep, options_of_sweep_merge,
    options_of_tokens, options_of_trace, options_of_train, options_of_validate, options_of_version;

/// What `calibrate --judge` does with its rows.
int judge_calibration(const Options& options, std::vector<MeasuredIteration> rows);

}  // namespace tandem::tools
