#include "tools/sweep/sweep_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem::tools {

void reject_line(const std::string& path, std::int64_t number, const std::string& why,
                 std::size_t column) {
  SourcePlace place;
  place.file = path;
  place.line = static_cast<std::uint32_t>(number);
  place.column = static_cast<std::uint32_t>(column);
  throw InputError(std::vector<Diagnostic>{{why, std::move(place), {}}});
}

namespace {

/// How each line begins.
constexpr std::string_view kBeginning = R"({"schema_version":1,"command":"sweep")";

/// What the library says, without the number that it gives it.
std::string reason_of(const Json::exception& error) {
  const std::string_view what = error.what();
  const std::size_t end = what.find("] ");
  return std::string(end == std::string_view::npos ? what : what.substr(end + 2));
}

/// Throws an exception of the library where one is missing.
void check_numbers(const std::string& path, std::int64_t number, const Json& line) {
  const Json& version = line.at("schema_version");
  if (version != 1)
    reject_line(path, number,
                fmt::format("schema version {}: this version reads 1", version.dump()));
  for (const char* key : {"configurations", "index"}) {
    if (!line.at(key).is_number_unsigned())
      reject_line(path, number, fmt::format("{}: expected a whole number", key));
  }
}

}  // namespace

std::int64_t read_sweep_file(const std::string& path,
                             const std::function<void(const StoredLine&)>& take) {
  const auto fail = [&path](int error) {
    throw InputError(fmt::format("{}: cannot read: {}", path, std::strerror(error)));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(errno);
  StoredLine line;
  std::string text;
  for (; std::getline(file, text) && !file.eof(); ++line.number) {
    text += '\n';
    // To the parser it would be the end.
    if (const std::size_t nul = text.find('\0'); nul != std::string::npos)
      reject_line(path, line.number, "not a line of a sweep: a NUL byte (U+0000)", nul + 1);
    try {
      const Json json = Json::parse(text);
      check_numbers(path, line.number, json);
      line.identity = identity_of(json);
      line.row = row_of(json);
    } catch (const Json::exception& error) {
      reject_line(path, line.number, fmt::format("not a line of a sweep: {}", reason_of(error)));
    }
    if (line.identity.configurations > kMostConfigurations)
      reject_line(path, line.number,
                  fmt::format("a sweep of {} configurations: {} at most",
                              line.identity.configurations, kMostConfigurations));
    if (line.row.index >= line.identity.configurations)
      reject_line(path, line.number,
                  fmt::format("configuration {} of {}: they count from 0", line.row.index,
                              line.identity.configurations));
    line.text = text;
    take(line);
    line.offset += static_cast<std::int64_t>(text.size());
  }
  if (file.bad()) fail(EIO);
  // What was cut off goes, which nobody wants of a file of something else.
  if (!text.starts_with(kBeginning.substr(0, text.size())))
    reject_line(path, line.number, "not a line of a sweep, nor the beginning of one");
  return line.offset;
}

}  // namespace tandem::tools
