#include "tools/cli/memory_limit.h"

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/error.h"
#include "tools/cli/notices.h"

namespace tandem::tools {

namespace {

namespace fs = std::filesystem;

/// The limit of a group and of all that it is in. A group that can't be seen from within its
/// container is left out: what can be seen is the container's own.
void take_group(const fs::path& mounted, fs::path group, const char* file,
                std::optional<Bytes>& least) {
  for (;; group = group.parent_path()) {
    std::ifstream limit(mounted / group.relative_path() / file);
    Bytes bytes = 0;
    if (limit >> bytes && bytes > 0)  // "max" is no number
      least = std::min(least.value_or(bytes), bytes);
    if (group == group.parent_path()) return;
  }
}

/// Who may use how much, and what of it is left.
struct Room {
  Bytes limit = 0, left = 0;
  std::string_view whose, set_by;
};

/// Of the machine and of each limit on this process, the one that leaves least.
Room least_room() {
  const Bytes page = sysconf(_SC_PAGE_SIZE), physical = sysconf(_SC_PHYS_PAGES) * page;
  Bytes addresses = 0, resident = 0;  // held already, in pages
  std::ifstream("/proc/self/statm") >> addresses >> resident;
  Room least{physical, std::min(physical, available_memory().value_or(physical)),
             "this machine has", ""};
  const auto take_limit = [&least](Bytes limit, Bytes held, std::string_view set_by) {
    const Bytes left = std::max<Bytes>(limit - held, 0);
    if (left < least.left) least = {limit, left, "this process may use", set_by};
  };
  if (const auto group = group_memory_limit())
    take_limit(*group, resident * page, " (its control group's limit)");
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    take_limit(static_cast<Bytes>(limit.rlim_cur), addresses * page, " (ulimit -v)");
  return least;
}

std::string who_says;    // begins what out_of_memory() says; empty: one process needs no name
std::string known_need;  // all of it

constexpr std::size_t kLeastStack = std::size_t{8} << 20;

/// Of threads that do not say; it is what `ulimit -s` said when the process began.
void enlarge_default_stack() {
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t size = 0;
  ::pthread_attr_getstacksize(&attributes, &size);
  if (size < kLeastStack && ::pthread_attr_setstacksize(&attributes, kLeastStack) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
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

std::optional<Bytes> available_memory(const fs::path& root) {
  std::ifstream lines(root / "proc/meminfo");
  for (std::string line; std::getline(lines, line);) {  // "MemAvailable:   22201172 kB"
    Bytes kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %" SCNd64 " kB", &kibibytes) == 1)
      return 1024 * kibibytes;
  }
  return std::nullopt;
}

void check_fits_memory(Bytes needed, const std::string& what) {
  const Room room = least_room();
  const std::string needs = fmt::format("{} needs {}", what, print_bytes(needed));
  const std::string of = fmt::format("{} {} of memory{}, of which {}", room.whose,
                                     print_bytes(room.limit), room.set_by, print_bytes(room.left));
  known_need =
      fmt::format("{}out of memory: {}, beside what its threads and kernels take; {} were left",
                  who_says, needs, of);
  if (needed > room.left) throw InfeasibleError(fmt::format("{}, but {} are left", needs, of));
}

void name_process(const std::string& who) {
  who_says = who + ": ";
  known_need = who_says + "out of memory";
}

std::string_view out_of_memory() {
  return known_need.empty() ? std::string_view("out of memory") : known_need;
}

void tell_memory(Bytes needed, const std::string& what) {
  constexpr Bytes kWorthTelling = Bytes{1} << 30;
  if (needed >= kWorthTelling)
    print_note(fmt::format("{} needs about {} of memory", what, print_bytes(needed)));
}

void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_MAX, 0);  // a block with a mapping of its own would be given back
}

int with_stack_room(const std::function<int()>& command) {
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur == RLIM_INFINITY ||
      stack.rlim_cur >= kLeastStack)
    return command();
  enlarge_default_stack();
  int code = 0;
  // This thread only waits. A signal that it took would kill before the command hears of it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([&] {
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      code = command();
    }).join();
  } catch (const std::system_error&) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return command();  // no memory for a larger one: then on what there is
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return code;
}

}  // namespace tandem::tools
