#include "tools/cli/file_roles.h"

#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/text/output_place.h"
#include "planner/study/prepared_plan.h"

namespace tandem::tools {

namespace {

/// "--trace t.json".
std::string described(const NamedFile& file) { return fmt::format("{} {}", file.title, file.path); }

/// One of two that are one file is written as it stands: both only add to it.
bool only_grows(const NamedFile& one, const NamedFile& other) {
  return output_place(one.path).as_it_stands && output_place(other.path).as_it_stands;
}

std::vector<NamedFile> inputs_of(const Options& options) {
  std::vector<NamedFile> inputs = options.inputs();
  std::vector<NamedFile> named;
  for (const NamedFile& input : inputs) {
    if (input.title != "PLAN") continue;
    for (PlanFile& file : files_named_by_plan(input.path))
      named.push_back({std::move(file.title), std::move(file.path)});
  }
  inputs.insert(inputs.end(), named.begin(), named.end());
  return inputs;
}

}  // namespace

void check_files_differ(const Options& options) {
  const std::vector<NamedFile> outputs = options.outputs();
  if (outputs.empty()) return;
  for (const NamedFile& input : inputs_of(options)) {
    for (const NamedFile& output : outputs) {
      if (!same_file(input.path, output.path)) continue;
      throw UsageError(fmt::format("tandem {}: {} would replace a file that is read: {}",
                                   options.command(), described(output), described(input)));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const NamedFile &one = outputs[j], &other = outputs[i];
      if (!same_file(one.path, other.path) || only_grows(one, other)) continue;
      throw UsageError(fmt::format("tandem {}: {} and {} would both write {}", options.command(),
                                   one.title, other.title, other.path));
    }
  }
}

}  // namespace tandem::tools
