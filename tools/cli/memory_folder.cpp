#include "tools/cli/memory_folder.h"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"

namespace tandem::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* kMemory = "/dev/shm";
constexpr const char* kPrefix = "tandem-copies-";

/// Those who use a folder share its lock. `how`: as flock() takes it.
Descriptor locked(const std::string& folder, int how) {
  Descriptor lock(open_file(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (lock.valid() && ::flock(lock.value(), how) != 0) return Descriptor();
  return lock;
}

/// Of a folder that is there and nobody uses. A moment old it may not yet be locked.
bool is_left_over(const fs::path& folder) {
  constexpr long kMoment = 60;
  struct stat status{};
  return folder.filename().string().starts_with(kPrefix) && ::lstat(folder.c_str(), &status) == 0 &&
         status.st_uid == ::geteuid() && ::time(nullptr) - status.st_ctime > kMoment &&
         locked(folder.string(), LOCK_EX | LOCK_NB).valid();
}

void remove_left_over() {
  std::error_code error;
  fs::directory_iterator entries(kMemory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code ignored;
    if (is_left_over(entries->path())) fs::remove_all(entries->path(), ignored);
  }
}

}  // namespace

MemoryFolder::MemoryFolder() {
  remove_left_over();
  path_ = fmt::format("{}/{}XXXXXX", kMemory, kPrefix);
  if (::mkdtemp(path_.data()) == nullptr) {
    throw AbsentError(fmt::format("no folder can be made in {}, where copies would be kept: {}",
                                  kMemory, reason_of(errno)));
  }
  lock_ = locked(path_, LOCK_SH);
}

Descriptor join_memory_folder(const std::string& path) {
  const bool made = ::mkdir(path.c_str(), 0700) == 0;
  if (made) remove_left_over();
  const int why = errno;
  if (!made && why != EEXIST) {
    throw AbsentError(
        fmt::format("{}, where copies would be kept, can't be made: {}", path, reason_of(why)));
  }
  Descriptor lock = locked(path, LOCK_SH);
  struct stat status{};
  if (lock.valid() && ::fstat(lock.value(), &status) == 0 && status.st_uid == ::geteuid())
    return lock;
  throw AbsentError(
      fmt::format("{}, where copies would be kept, is no folder of this user's", path));
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tandem::tools
