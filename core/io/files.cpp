#include "core/io/files.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "core/io/output_place.h"
#include "core/units.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as the kernel follows
constexpr mode_t kReadWriteForAll = 0666;
constexpr mode_t kPermissions = 07777;

int open_at(const std::string& path, int flags) {
  int value = -1;
  do {
    value = ::open(path.c_str(), flags | O_CLOEXEC, kReadWriteForAll);
  } while (value < 0 && errno == EINTR);
  return value;
}

/// A file descriptor, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : value_(open_at(path, flags)) {}
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool valid() const { return value_ >= 0; }
  int value() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  /// Closes it now; false: what was written may not have arrived.
  bool close() { return ::close(std::exchange(value_, -1)) == 0; }

 private:
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

/// The N of /proc/PID/fd/N where PID is this process; -1: it is none of ours.
int own_descriptor(const fs::path& folder, const std::string& name) {
  if (folder != fmt::format("/proc/{}/fd", ::getpid())) return -1;
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() ? number : -1;
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

OutputPlace output_place(const std::string& path) {
  fs::path at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(at, error))) break;
    const fs::path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : ".", error);
    if (error) break;
    // The kernel's links lead to open files, whatever name or none those have.
    if (folder.native().starts_with("/proc/"))
      return {path, true, own_descriptor(folder, at.filename().string())};
    const fs::path next = fs::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / next;
  }
  std::error_code ignored;
  const fs::file_status status = fs::status(at, ignored);
  return {at.string(),
          fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status), -1};
}

int open_as_it_stands(const OutputPlace& place) {
  if (place.descriptor >= 0) return ::fcntl(place.descriptor, F_DUPFD_CLOEXEC, 0);
  return open_at(place.path, O_WRONLY | O_APPEND);
}

void write_file(const std::string& path, std::string_view content) {
  const OutputPlace place = output_place(path);
  if (place.as_it_stands) {
    Descriptor file(open_as_it_stands(place));
    if (!file.valid()) fail_writing(path, errno);
    const int error = write_all(file.value(), content);
    if (error != 0) fail_writing(path, error);
    if (!file.close()) fail_writing(path, errno);
    return;
  }
  struct stat status{};
  const bool exists = ::stat(place.path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_writing(path, EISDIR);
  const std::string temporary = place.path + ".tmp";
  int error = write_temporary(temporary, content, exists ? &status.st_mode : nullptr);
  if (error == 0 && ::rename(temporary.c_str(), place.path.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(temporary.c_str());
  fail_writing(path, error);
}

GrowingFile::GrowingFile(std::string path) : path_(std::move(path)) {
  const OutputPlace place = output_place(path_);
  as_it_stands_ = place.as_it_stands;
  Descriptor file(as_it_stands_ ? open_as_it_stands(place)
                                : open_at(place.path, O_WRONLY | O_CREAT | O_APPEND));
  if (!file.valid()) fail_writing(path_, errno);
  // Where the file system knows no locks, nobody is refused.
  if (!as_it_stands_ && ::flock(file.value(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw DeviceError(path_ + ": is being written by another tandem");
  descriptor_ = file.release();
}

GrowingFile::~GrowingFile() { ::close(descriptor_); }

void GrowingFile::keep(std::int64_t bytes) {
  if (as_it_stands_) return;
  if (::ftruncate(descriptor_, bytes) != 0) fail_writing(path_, errno);
}

void GrowingFile::write(std::string_view text) {
  const int error = write_all(descriptor_, text);
  if (error != 0) fail_writing(path_, error);
}

}  // namespace tandem
