#include "core/io/files.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/units.h"

namespace tandem {
namespace {

constexpr mode_t kReadWriteForAll = 0666;
constexpr mode_t kPermissions = 07777;

/// A file descriptor, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : value_(open_at(path, flags)) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool valid() const { return value_ >= 0; }
  int value() const { return value_; }
  /// Closes it now; false: what was written may not have arrived.
  bool close() { return ::close(std::exchange(value_, -1)) == 0; }

 private:
  static int open_at(const std::string& path, int flags) {
    int value = -1;
    do {
      value = ::open(path.c_str(), flags | O_CLOEXEC, kReadWriteForAll);
    } while (value < 0 && errno == EINTR);
    return value;
  }

  int value_;
};

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_reading(const std::string& path, std::string message) {
  Complaint complaint{std::move(message), {}, {}};
  complaint.place.file = path;
  throw InputError(std::vector<Complaint>{std::move(complaint)});
}

[[noreturn]] void fail_writing(const std::string& path, int error) {
  throw DeviceError(fmt::format("{}: cannot write: {}", path, reason(error)));
}

/// The error number of the first write that failed, or 0.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Writes PATH.tmp whole; the error number of the first failure, or 0.
int write_temporary(const std::string& temporary, std::string_view content, const mode_t* mode) {
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.valid()) return errno;
  if (mode != nullptr && ::fchmod(file.value(), *mode & kPermissions) != 0) return errno;
  const int error = write_all(file.value(), content);
  if (error != 0) return error;
  if (::fsync(file.value()) != 0) return errno;
  return file.close() ? 0 : errno;
}

/// The file that `path` names, behind any links: replacing a link would cut it off from its file.
std::string behind_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  return resolved ? std::string(resolved.get()) : path;
}

}  // namespace

std::string read_file(const std::string& path, std::size_t most) {
  const Descriptor file(path, O_RDONLY);
  if (!file.valid()) fail_reading(path, "cannot open: " + reason(errno));
  std::string content;
  std::array<char, std::size_t{1} << 16> buffer{};
  while (true) {
    const ssize_t size = ::read(file.value(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail_reading(path, "cannot read: " + reason(errno));
    if (size == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(size));
    if (content.size() > most) {
      fail_reading(path,
                   "larger than " + print_bytes(static_cast<Bytes>(most)) + ", the limit here");
    }
  }
}

void write_file(const std::string& path, std::string_view content) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_writing(path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    Descriptor file(path, O_WRONLY);
    if (!file.valid()) fail_writing(path, errno);
    const int error = write_all(file.value(), content);
    if (error != 0) fail_writing(path, error);
    if (!file.close()) fail_writing(path, errno);
    return;
  }
  const std::string target = exists ? behind_links(path) : path;
  const std::string temporary = target + ".tmp";
  int error = write_temporary(temporary, content, exists ? &status.st_mode : nullptr);
  if (error == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(temporary.c_str());
  fail_writing(path, error);
}

}  // namespace tandem
