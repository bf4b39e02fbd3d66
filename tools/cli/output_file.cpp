#include "tools/cli/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/text/output_place.h"

namespace tandem::tools {

namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw DeviceError(fmt::format("{}: cannot write: {}", path, std::strerror(error)));
}

}  // namespace

void check_can_write(const std::string& path) {
  const OutputPlace place = output_place(path);
  if (place.descriptor >= 0) return;  // it is open, whoever may open it anew
  struct stat status{};
  if (::stat(place.path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail(path, EISDIR);
    if (::access(place.path.c_str(), W_OK) != 0) fail(path, errno);
    if (place.as_it_stands) return;
  }
  // The file is made beside and renamed.
  const std::filesystem::path parent = std::filesystem::path(place.path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (::stat(folder.c_str(), &status) != 0) fail(path, errno);
  if (!S_ISDIR(status.st_mode)) fail(path, ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail(path, errno);
}

}  // namespace tandem::tools
