#include "core/text/descriptor.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

int open_file(const std::string& path, int flags, unsigned mode) {
  int value = -1;
  do {
    value = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (value < 0 && errno == EINTR);
  return value;
}

int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string reason_of(int error) { return std::generic_category().message(error); }

void fail_writing(const std::string& path, int error) {
  throw DeviceError(fmt::format("{}: cannot write: {}", path, reason_of(error)));
}

}  // namespace tandem
