#include "core/text/files.h"

#include <array>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/base/units.h"
#include "core/text/descriptor.h"
#include "core/text/replacement.h"

namespace tandem {
namespace {

[[noreturn]] void fail_reading(const std::string& path, std::string message) {
  throw InputError(Diagnostic{.message = std::move(message), .place = {.file = path}});
}

}  // namespace

std::string read_file(const std::string& path, std::size_t most) {
  const Descriptor file(open_file(path, O_RDONLY));
  if (!file.valid()) fail_reading(path, "cannot open: " + reason_of(errno));
  std::string content;
  const Activity progress("reading " + path);
  std::array<char, std::size_t{1} << 16> buffer{};
  while (true) {
    const ssize_t size = ::read(file.value(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail_reading(path, "cannot read: " + reason_of(errno));
    if (size == 0) return content;
    keep_going();
    content.append(buffer.data(), static_cast<std::size_t>(size));
    if (content.size() > most) {
      fail_reading(path,
                   "larger than " + print_bytes(static_cast<Bytes>(most)) + ", the limit here");
    }
  }
}

void write_file(const std::string& path, std::string_view content) {
  Replacement file(path);
  file.write(content);
  file.commit();
}

std::string beside(const std::string& path, const std::string& file) {
  return (std::filesystem::path(path).parent_path() / file).string();
}

}  // namespace tandem
