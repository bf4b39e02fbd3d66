#include "core/text/replacement.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tandem {
namespace {

constexpr mode_t kPermissions = 07777;
constexpr mode_t kForItsOwner = 0600;
constexpr mode_t kForAll = 0666;           // less what the umask takes away
constexpr std::size_t kLongestStem = 200;  // file systems have 255 bytes for a name
constexpr int kMostTries = 1000;

/// No other process has it, nor this one a second time, but for what a killed one left.
std::string name_beside(const std::string& target) {
  static std::atomic<unsigned> number{0};
  const std::filesystem::path path(target);
  return (path.parent_path() / fmt::format(".{}.{}-{}.tmp",
                                           path.filename().string().substr(0, kLongestStem),
                                           ::getpid(), ++number))
      .string();
}

}  // namespace

Replacement::Replacement(std::string path) : path_(std::move(path)), place_(output_place(path_)) {
  if (place_.as_it_stands) {
    file_ = Descriptor(open_as_it_stands(place_));
    if (!file_.valid()) fail_writing(path_, errno);
  } else {
    open_beside();
  }
}

void Replacement::open_beside() {
  struct stat target{};
  const bool exists = ::stat(place_.path.c_str(), &target) == 0;
  if (exists && S_ISDIR(target.st_mode)) fail_writing(path_, EISDIR);
  for (int tries = 0; !file_.valid(); ++tries) {
    const std::string name = name_beside(place_.path);
    // Exclusive: neither a file of the user's nor what a link leads to is ever opened.
    file_ =
        Descriptor(open_file(name, O_WRONLY | O_CREAT | O_EXCL, exists ? kForItsOwner : kForAll));
    if (file_.valid()) temporary_.emplace(name);
    if (!file_.valid() && (errno != EEXIST || tries == kMostTries)) fail_writing(path_, errno);
  }
  if (exists) keep_owner_and_mode(target);
}

void Replacement::keep_owner_and_mode(const struct stat& target) const {
  mode_t mode = target.st_mode & kPermissions;
  // Only root gives files away; a group that it can't be of must not lend its rights to another.
  if (::fchown(file_.value(), target.st_uid, target.st_gid) != 0 &&
      ::fchown(file_.value(), static_cast<uid_t>(-1), target.st_gid) != 0)
    mode &= ~static_cast<mode_t>(S_IRWXG | S_ISUID | S_ISGID);
  if (::fchmod(file_.value(), mode) != 0) fail_writing(path_, errno);
}

void Replacement::write(std::string_view text) {
  const int error = write_all(file_.value(), text);
  if (error != 0) fail_writing(path_, error);
}

void Replacement::commit() {
  const bool beside = temporary_.has_value();
  if (beside && ::fsync(file_.value()) != 0) fail_writing(path_, errno);
  if (!file_.close()) fail_writing(path_, errno);
  if (!beside) return;
  if (::rename(temporary_->path().c_str(), place_.path.c_str()) != 0) fail_writing(path_, errno);
  temporary_->forget();
  sync_folder();
}

/// So that the new name outlives a loss of power. Where a file system knows nothing of it, the file
/// is there all the same.
void Replacement::sync_folder() const {
  const std::filesystem::path folder = std::filesystem::path(place_.path).parent_path();
  const Descriptor opened(
      open_file(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY));
  if (opened.valid()) ::fsync(opened.value());
}

}  // namespace tandem
