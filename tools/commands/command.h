#pragma once
// A subcommand: a file, a function, a row in the table of main.cpp.

#include <span>
#include <string_view>

#include "tools/cli/arguments.h"

namespace tandem::tools {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);  // null: named in the contract, not in this version
};
std::span<const Command> commands();

int run_calibrate(const Arguments& arguments);
int run_catalog(const Arguments& arguments);
int run_check(const Arguments& arguments);
int run_compare(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_explain(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_profile(const Arguments& arguments);
int run_schedule(const Arguments& arguments);
int run_simulate(const Arguments& arguments);
int run_sweep(const Arguments& arguments);
int run_sweep_merge(const Arguments& arguments);
int run_import(const Arguments& arguments);
int run_tokens(const Arguments& arguments);
int run_trace(const Arguments& arguments);
int run_train(const Arguments& arguments);
int run_version(const Arguments& arguments);

}  // namespace tandem::tools
