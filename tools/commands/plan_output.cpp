#include "tools/commands/plan_output.h"

#include <filesystem>
#include <system_error>

#include "core/base/ascii.h"
#include "core/base/utf8.h"
#include "core/files/read.h"
#include "core/text/files.h"

namespace tandem::tools {

namespace {

/// A file as seen from the folder of another.
std::string path_from(const std::string& file, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(output, error).parent_path(), error);
  const fs::path target = fs::weakly_canonical(fs::absolute(file, error), error);
  const fs::path relative = target.lexically_relative(folder);
  return relative.empty() ? target.generic_string() : relative.generic_string();
}

}  // namespace

std::string path_in_plan(const Options& options, const char* option) {
  if (!options.has("output") || !options.has(option)) return {};
  std::string path = path_from(options.text(option), options.text("output"));
  if (end_of_line(path) != std::string::npos || first_invalid_utf8(path) != path.size())
    options[option].reject("a path that a plan can name, a line of UTF-8");
  return path;
}

void write_plan(const std::string& path, const Plan& plan) {
  const std::string text = plan_text(plan);
  parse_plan(path, text);  // nothing is written that no command would read
  write_file(path, text);
}

}  // namespace tandem::tools
