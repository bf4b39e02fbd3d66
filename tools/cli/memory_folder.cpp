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

Descriptor locked(const std::string& folder) {
  Descriptor lock(open_file(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (lock.valid() && ::flock(lock.value(), LOCK_EX | LOCK_NB) != 0) return Descriptor();
  return lock;
}

/// Of a folder that is there and whose owner is not. A moment old it may not yet be locked.
bool is_left_over(const fs::path& folder) {
  constexpr long kMoment = 60;
  struct stat status{};
  return folder.filename().string().starts_with(kPrefix) && ::lstat(folder.c_str(), &status) == 0 &&
         status.st_uid == ::geteuid() && ::time(nullptr) - status.st_ctime > kMoment &&
         locked(folder.string()).valid();
}

}  // namespace

MemoryFolder::MemoryFolder() {
  std::error_code error;
  fs::directory_iterator entries(kMemory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code ignored;
    if (is_left_over(entries->path())) fs::remove_all(entries->path(), ignored);
  }
  path_ = fmt::format("{}/{}XXXXXX", kMemory, kPrefix);
  if (::mkdtemp(path_.data()) == nullptr) {
    throw AbsentError(fmt::format("no folder can be made in {}, where copies would be kept: {}",
                                  kMemory, reason_of(errno)));
  }
  lock_ = locked(path_);
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tandem::tools
