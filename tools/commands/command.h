#pragma once
// A subcommand: a file, two functions, a row in the table of main.cpp.

#include "tools/cli/command.h"

namespace tandem::tools {

int run_calibrate(const Options& options);
int run_catalog(const Options& options);
int run_check(const Options& options);
int run_compare(const Options& options);
int run_completion(const Options& options);
int run_doctor(const Options& options);
int run_explain(const Options& options);
int run_import(const Options& options);
int run_man(const Options& options);
int run_plan(const Options& options);
int run_profile(const Options& options);
int run_replay(const Options& options);
int run_schedule(const Options& options);
int run_simulate(const Options& options);
int run_sweep(const Options& options);
int run_sweep_merge(const Options& options);
int run_tokens(const Options& options);
int run_trace(const Options& options);
int run_train(const Options& options);
int run_version(const Options& options);

Options options_of_calibrate();
Options options_of_catalog();
Options options_of_check();
Options options_of_compare();
Options options_of_completion();
Options options_of_doctor();
Options options_of_explain();
Options options_of_import();
Options options_of_man();
Options options_of_plan();
Options options_of_profile();
Options options_of_replay();
Options options_of_schedule();
Options options_of_simulate();
Options options_of_sweep();
Options options_of_sweep_merge();
Options options_of_tokens();
Options options_of_trace();
Options options_of_train();
Options options_of_version();

}  // namespace tandem::tools
