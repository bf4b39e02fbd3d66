#pragma once
// The ranks of a run on this host as its system shows them, whether or not they have joined the
// others. Launchers that are not ours tell nobody that a process stands still, and some wait for
// it.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "executor/ranks/rank_place.h"

namespace tandem {

/// A process of the run.
struct LocalRank {
  std::int32_t rank = 0;
  std::int64_t process = 0;
  bool stands_still = false;  // a signal stopped it
};

/// Those of the run of `mine` on this host, without the process that asks: they run its program
/// with its arguments, and their environment puts them into its run. `rendezvous`: what
/// --rendezvous gives, or empty.
std::vector<LocalRank> find_local_ranks(const RankPlace& mine, const std::string& rendezvous);

/// Says who among them stands still for long. One that ends, launchers see themselves.
class LocalWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit LocalWatch(Duration patience) : patience_(patience) {}

  /// What was found now.
  std::optional<LocalRank> look(Time now, const std::vector<LocalRank>& found);
  /// Of what was found before, nothing counts: this process stood still itself.
  void begin_anew() { still_since_.clear(); }

 private:
  const Duration patience_;
  std::map<std::int64_t, Time> still_since_;  // by process
};

/// Kills that process when this one ends, after it has said why: a launcher that sees one of its
/// processes killed may kill the others at once. A process that takes its number later is spared.
void kill_at_exit(const LocalRank& rank);
/// Does so now: before std::_Exit().
void kill_what_stands_still();

}  // namespace tandem
