#include "executor/ranks/local_ranks.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace tandem {

namespace {

namespace fs = std::filesystem;

/// Empty where the process has ended, or is another user's. By read(), which does not throw where
/// it ends in between, as an iterator does.
std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  std::array<char, 4096> part{};
  do {
    stream.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  } while (stream);
  return text;
}

fs::path program_of(const fs::path& process) {
  std::error_code ignored;
  return fs::read_symlink(process / "exe", ignored);
}

/// "NAME=VALUE", each with a zero behind it.
std::optional<std::string> value_in(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    environment.remove_prefix(std::min(entry.size() + 1, environment.size()));
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string(entry.substr(name.size() + 1));
  }
  return std::nullopt;
}

/// "77 (a name) T 1 …": the letter. Z: it has ended.
char state_of(const fs::path& process) {
  const std::string stat = content_of(process / "stat");
  const std::size_t end = stat.rfind(')');
  return end == std::string::npos || end + 2 >= stat.size() ? 'Z' : stat[end + 2];
}

std::optional<RankPlace> place_of(const fs::path& process, const std::string& rendezvous) {
  const std::string environment = content_of(process / "environ");
  try {
    return find_rank_place([&](const char* name) {
      return !rendezvous.empty() && std::string_view(name) == "TANDEM_RENDEZVOUS"
                 ? std::optional(rendezvous)
                 : value_in(environment, name);
    });
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool is_one_run(const RankPlace& a, const RankPlace& b) {
  return a.launcher == b.launcher && a.ranks == b.ranks && a.restarts == b.restarts &&
         a.rendezvous_host == b.rendezvous_host && a.rendezvous_port == b.rendezvous_port;
}

/// Processes that stand still. The descriptors are theirs, whoever has their numbers later.
class StandingStill {
 public:
  void add(std::int64_t process) {
    const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    if (descriptor < 0) return;
    const std::lock_guard lock(mutex_);
    descriptors_.push_back(descriptor);
  }
  void kill_all() {
    const std::lock_guard lock(mutex_);
    for (const int descriptor : descriptors_) {
      ::syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
      ::close(descriptor);
    }
    descriptors_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<int> descriptors_;
};

StandingStill standing_still;

}  // namespace

std::vector<LocalRank> find_local_ranks(const RankPlace& mine, const std::string& rendezvous) {
  const std::string arguments = content_of("/proc/self/cmdline");
  const fs::path program = program_of("/proc/self");
  std::vector<LocalRank> found;
  std::error_code ignored;
  for (fs::directory_iterator at("/proc", ignored), end; at != end; at.increment(ignored)) {
    const fs::directory_entry& entry = *at;
    const auto process = number_in<std::int64_t>(entry.path().filename().string());
    if (!process || *process == ::getpid()) continue;
    if (content_of(entry.path() / "cmdline") != arguments) continue;
    const char state = state_of(entry.path());
    if (state == 'Z' || state == 'X' || program_of(entry.path()) != program) continue;
    const std::optional<RankPlace> place = place_of(entry.path(), rendezvous);
    if (!place || !is_one_run(*place, mine) || place->rank == mine.rank) continue;
    found.push_back({.rank = place->rank, .process = *process, .stands_still = state == 'T'});
  }
  return found;
}

std::optional<LocalRank> LocalWatch::look(Time now, const std::vector<LocalRank>& found) {
  std::map<std::int64_t, Time> still_since;
  std::optional<LocalRank> lost;
  for (const LocalRank& rank : found) {
    if (!rank.stands_still) continue;
    const auto before = still_since_.find(rank.process);
    const Time since = before == still_since_.end() ? now : before->second;
    still_since.emplace(rank.process, since);
    if (now - since >= patience_) lost = rank;
  }
  still_since_ = std::move(still_since);
  return lost;
}

void kill_at_exit(const LocalRank& rank) {
  static const bool registered = std::atexit(kill_what_stands_still) == 0;
  if (registered) standing_still.add(rank.process);
}

void kill_what_stands_still() { standing_still.kill_all(); }

}  // namespace tandem
