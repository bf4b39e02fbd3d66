#include "tools/cli/memory_limit.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/error.h"

namespace tandem::tools {

namespace {

namespace fs = std::filesystem;

void take(std::optional<Bytes>& least, Bytes limit) {
  least = std::min(least.value_or(limit), limit);
}

/// The limit of a group and of all that it is in. A group that can't be seen from within its
/// container is left out: what can be seen is the container's own.
void take_group(const fs::path& mounted, fs::path group, const char* file,
                std::optional<Bytes>& least) {
  for (;; group = group.parent_path()) {
    std::ifstream limit(mounted / group.relative_path() / file);
    Bytes bytes = 0;
    if (limit >> bytes && bytes > 0) take(least, bytes);  // "max" is no number
    if (group == group.parent_path()) return;
  }
}

}  // namespace

std::optional<Bytes> group_memory_limit(const fs::path& root) {
  std::optional<Bytes> least;
  const fs::path mounted = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/of/this", "0::/of/all"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") take_group(mounted, group, "memory.max", least);
    if (controllers.find(",memory,") != std::string::npos)
      take_group(mounted / "memory", group, "memory.limit_in_bytes", least);
  }
  return least;
}

void check_fits_memory(Bytes needed, const std::string& what) {
  const Bytes physical = static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::optional<Bytes> allowed = group_memory_limit();
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    take(allowed, static_cast<Bytes>(limit.rlim_cur));
  if (needed > physical) {
    throw InfeasibleError(fmt::format("{} needs {}, but this machine has {} of memory", what,
                                      print_bytes(needed), print_bytes(physical)));
  }
  if (allowed && needed > *allowed) {
    throw InfeasibleError(fmt::format(
        "{} needs {}, but this process may use {} of memory (its control group's limit, or ulimit "
        "-v)",
        what, print_bytes(needed), print_bytes(*allowed)));
  }
}

void tell_memory(Bytes needed, const std::string& what) {
  constexpr Bytes kWorthTelling = Bytes{1} << 30;
  if (needed >= kWorthTelling)
    fmt::print(stderr, "note: {} needs about {} of memory\n", what, print_bytes(needed));
}

}  // namespace tandem::tools
