#pragma once
// A subcommand: a file, two functions, a row in the table of main.cpp.

#include "tools/cli/command.h"

namespace tandem::tools {

int run_calibrate(const Arguments& arguments);
int run_catalog(const Arguments& arguments);
int run_check(const Arguments& arguments);
int run_compare(const Arguments& arguments);
int run_completion(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_explain(const Arguments& arguments);
int run_import(const Arguments& arguments);
int run_man(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_profile(const Arguments& arguments);
int run_replay(const Arguments& arguments);
int run_schedule(const Arguments& arguments);
int run_simulate(const Arguments& arguments);
int run_sweep(const Arguments& arguments);
int run_sweep_merge(const Arguments& arguments);
int run_tokens(const Arguments& arguments);
int run_trace(const Arguments& arguments);
int run_train(const Arguments& arguments);
int run_version(const Arguments& arguments);

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
