#pragma once
// The processes of a run's ranks: started together, and none outlives a failure of another.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tools/cli/child_process.h"

namespace tandem::tools {

struct RankProcess {
  std::int32_t rank = 0;
  std::string host = {};
  bool remote = false;  // the process here is one of ssh, which hears of signals by its stdin
  ChildSetup setup = {};
};

/// How one ended.
struct RankEnd {
  std::int32_t rank = 0;
  std::string host = {};
  pid_t id = 0;
  int code = 0;        // as a shell says it: 128 + signal
  int signal = 0;      // 0: none
  int stopped_by = 0;  // a signal, where it stood still and was ended for that; 0: it did not

  /// "rank 2 (host x, pid 7) was killed by signal 9 (Killed)".
  std::string to_string() const;
};

struct RankPatience {
  std::chrono::milliseconds after_failure{1'500};      // for the others to end by themselves
  std::chrono::milliseconds after_asking{2'000};       // by SIGTERM
  std::chrono::milliseconds for_the_cause{250};        // what made the others fail, to be seen
  std::chrono::milliseconds for_a_stopped_one{3'500};  // to go on; the others may lose it before
};

struct RanksEnded {
  std::vector<RankEnd> ends;          // by rank
  std::optional<std::size_t> failed;  // who made the others fail; else the first that did
  bool interrupted = false;           // `stop` was asked for

  int code() const;
};

/// Runs them to their end. A stop is passed on once, and waited for. `say`: lines for people, of
/// ranks whose output is taken and of what happened.
RanksEnded run_ranks(const std::vector<RankProcess>& ranks, const std::stop_token& stop,
                     const std::function<void(const std::string&)>& say,
                     const RankPatience& patience = {});

}  // namespace tandem::tools
