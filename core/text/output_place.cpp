#include "core/text/output_place.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int kMostSymbolicLinks = 40;  // as many as the kernel follows

/// The N of /proc/PID/fd/N where PID is this process; -1: it is none of ours.
int own_descriptor(const fs::path& folder, const std::string& name) {
  if (folder != fmt::format("/proc/{}/fd", ::getpid())) return -1;
  return number_in<int>(name).value_or(-1);
}

/// What the file system calls the file at a path whose links were followed; no file need be there.
fs::path true_name(const fs::path& path) {
  std::error_code error;
  const fs::path folder = path.parent_path();
  const fs::path found = fs::canonical(folder.empty() ? "." : folder, error);
  return error ? path.lexically_normal() : found / path.filename();
}

}  // namespace

OutputPlace output_place(const std::string& path) {
  fs::path at = path;
  for (int links = 0; links < kMostSymbolicLinks; ++links) {
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
  return open_file(place.path, O_WRONLY | O_APPEND);
}

void check_can_write(const std::string& path) {
  const OutputPlace place = output_place(path);
  if (place.descriptor >= 0) return;  // it is open, whoever may open it anew
  struct stat status {};
  if (::stat(place.path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail_writing(path, EISDIR);
    if (::access(place.path.c_str(), W_OK) != 0) fail_writing(path, errno);
    if (place.as_it_stands) return;
  }
  // The file is made beside and renamed.
  const fs::path parent = fs::path(place.path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (::stat(folder.c_str(), &status) != 0) fail_writing(path, errno);
  if (!S_ISDIR(status.st_mode)) fail_writing(path, ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail_writing(path, errno);
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && !fs::exists(path, ignored)) {
    throw DeviceError(fmt::format("{}: it is a link to {}, which is not there", path,
                                  fs::read_symlink(path, ignored).string()));
  }
  fail_writing(path, error.value());
}

bool same_file(const std::string& one, const std::string& other) {
  struct stat first {
  }, second{};
  const bool is_first = ::stat(one.c_str(), &first) == 0;
  const bool is_second = ::stat(other.c_str(), &second) == 0;
  if (is_first != is_second) return false;
  if (!is_first) return true_name(output_place(one).path) == true_name(output_place(other).path);
  return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

GrowingFile::GrowingFile(std::string path) : path_(std::move(path)) {
  const OutputPlace place = output_place(path_);
  as_it_stands_ = place.as_it_stands;
  file_ = Descriptor(as_it_stands_ ? open_as_it_stands(place)
                                   : open_file(place.path, O_WRONLY | O_CREAT | O_APPEND));
  if (!file_.valid()) fail_writing(path_, errno);
  // Where the file system knows no locks, nobody is refused.
  if (!as_it_stands_ && ::flock(file_.value(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw DeviceError(path_ + ": another tandem is writing it");
}

void GrowingFile::write(std::string_view text) {
  if (kept_ && !as_it_stands_ && ::ftruncate(file_.value(), *kept_) != 0)
    fail_writing(path_, errno);
  kept_.reset();
  const int error = write_all(file_.value(), text);
  if (error != 0) fail_writing(path_, error);
}

}  // namespace tandem
