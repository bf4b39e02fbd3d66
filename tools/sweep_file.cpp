#include "tools/sweep_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace tandem::tools {

void reject_line(const std::string& path, std::int64_t number, const std::string& why) {
  SourcePlace place;
  place.file = path;
  place.line = static_cast<std::uint32_t>(number);
  place.column = 1;
  throw InputError(std::vector<Complaint>{{why, std::move(place), {}}});
}

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
  for (std::string text; std::getline(file, text) && !file.eof(); ++line.number) {
    text += '\n';
    try {
      const Json json = Json::parse(text);
      line.identity = identity_of(json);
      line.row = row_of(json);
    } catch (const Json::exception& error) {
      reject_line(path, line.number, fmt::format("not a line of a sweep: {}", error.what()));
    }
    if (line.row.index >= line.identity.configurations)
      reject_line(path, line.number,
                  fmt::format("configuration {} of {}: they count from 0", line.row.index,
                              line.identity.configurations));
    line.text = text;
    take(line);
    line.offset += static_cast<std::int64_t>(text.size());
  }
  if (file.bad()) fail(EIO);
  return line.offset;
}

SweepWriter::SweepWriter(std::string path, std::int64_t kept) : path_(std::move(path)) {
  errno = 0;
  if (kept > 0) {
    std::error_code error;
    std::filesystem::resize_file(path_, static_cast<std::uintmax_t>(kept), error);
    if (error) fail(error.value());
  }
  file_.open(path_, std::ios::binary | (kept > 0 ? std::ios::app : std::ios::trunc));
  if (!file_) fail(errno);
}

void SweepWriter::write(const std::string& line) {
  errno = 0;
  file_ << line << std::flush;
  if (!file_) fail(errno);
}

void SweepWriter::fail(int error) const {
  throw DeviceError(fmt::format("{}: cannot write: {}", path_,
                                error == 0 ? "input/output error" : std::strerror(error)));
}

}  // namespace tandem::tools
