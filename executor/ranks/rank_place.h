#pragma once
// Who this process is among those of a run, as whoever started it tells: `tandem launch`, torchrun,
// Open MPI, MPICH, Slurm.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tandem {

/// The value of an environment variable, or nothing: so tests need no environment.
using LookUp = std::function<std::optional<std::string>(const char*)>;

/// Looks into the environment of this process.
std::optional<std::string> environment_variable(const char* name);

/// Where a process stands among those of a run.
struct RankPlace {
  std::int32_t rank = 0, ranks = 1;              // of all
  std::int32_t local_rank = 0, local_ranks = 1;  // of those on this host
  std::string rendezvous_host = "127.0.0.1";     // where rank 0 listens
  std::uint16_t rendezvous_port = 0;
  std::string launcher;       // "tandem", "torchrun", "Open MPI", "MPICH", "Slurm"; for messages
  std::int32_t restarts = 0;  // times that the launcher has started the run before
  std::string copies = {};    // folder in this host's memory that outlives the ranks; empty: none

  /// Whether MPI can find the others: it is its launcher that tells them.
  bool by_mpi() const { return launcher != "tandem" && launcher != "torchrun"; }
  bool all_here() const { return local_ranks == ranks; }
};

/// Empty: the process was started alone. An empty variable counts as none. TANDEM_RENDEZVOUS says
/// where rank 0 listens under every launcher: who has an option for it answers for this name.
/// Throws InputError, which names variable and value, for what can't be read or can't be.
std::optional<RankPlace> find_rank_place(const LookUp& look);

/// "HOST:PORT", or "[::1]:PORT". Throws InputError, which begins with `name`.
void read_rendezvous(const std::string& name, const std::string& text, RankPlace& place);

}  // namespace tandem
