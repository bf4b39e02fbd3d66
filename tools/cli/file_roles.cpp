#include "tools/cli/file_roles.h"

#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/files/read.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "tools/cli/file_cache.h"

namespace tandem::tools {

namespace {

/// "--trace t.json".
std::string described(const NamedFile& file) { return fmt::format("{} {}", file.title, file.path); }

/// One of two that are one file is written as it stands: both only add to it.
bool only_grows(const NamedFile& one, const NamedFile& other) {
  return output_place(one.path).as_it_stands && output_place(other.path).as_it_stands;
}

/// The files that are read because the plan names them; none of a plan that can't be read.
std::vector<NamedFile> files_named_by_plan(const std::string& path) {
  std::vector<NamedFile> files;
  try {
    const Plan& plan = read_cached<read_plan>(path);
    if (!plan.profile.empty()) files.push_back({"the plan's profile", beside(path, plan.profile)});
    if (!plan.schedule_file.empty())
      files.push_back({"the plan's schedule", beside(path, plan.schedule_file)});
  } catch (const InputError&) {
    return {};  // who reads the plan says what is wrong with it
  }
  return files;
}

/// Of those that may be names of the catalogue, the ones that are files. A plan is always one.
std::vector<NamedFile> inputs_of(const Options& options) {
  std::vector<NamedFile> inputs = options.inputs();
  std::vector<NamedFile> named;
  for (const NamedFile& input : inputs) {
    if (input.title != "PLAN") continue;
    for (NamedFile& file : files_named_by_plan(input.path)) named.push_back(std::move(file));
  }
  inputs.insert(inputs.end(), named.begin(), named.end());
  std::erase_if(inputs, [](const NamedFile& input) {
    struct stat ignored{};
    return input.title != "PLAN" && ::stat(input.path.c_str(), &ignored) != 0;
  });
  return inputs;
}

}  // namespace

void check_files_differ(const Options& options, const std::vector<NamedFile>& outputs) {
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
