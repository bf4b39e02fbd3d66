#include "executor/ranks/rank_place.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace tandem {

namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kLastPort = 65'535;

class Variables {
 public:
  explicit Variables(const LookUp& look) : look_(look) {}

  bool has(const char* name) const { return !text(name).empty(); }
  std::string text(const char* name) const { return look_(name).value_or(""); }

  /// What the launcher always sets beside the variables that tell it.
  std::string needed(const char* name, const char* launcher) const {
    std::string found = text(name);
    if (found.empty())
      throw InputError(fmt::format("{}: is missing, and {} sets it", name, launcher));
    return found;
  }
  std::int32_t integer(const char* name, std::int32_t least, std::int32_t most,
                       const char* launcher) const {
    const std::string found = needed(name, launcher);
    const auto number = number_in<std::int32_t>(found);
    if (!number || *number < least || *number > most)
      throw InputError(fmt::format("{}: expected an integer from {} to {}, found \"{}\"", name,
                                   least, most, found));
    return *number;
  }
  std::int32_t integer_or(const char* name, std::int32_t otherwise, const char* launcher) const {
    return has(name) ? integer(name, 0, kMost, launcher) : otherwise;
  }

 private:
  const LookUp& look_;
};

/// The names by which a launcher tells them.
struct PlaceNames {
  const char *rank, *ranks, *local_rank, *local_ranks;
};

RankPlace read_place(const Variables& variables, const PlaceNames& names, const char* launcher) {
  RankPlace place{.launcher = launcher};
  place.ranks = variables.integer(names.ranks, 1, kMost, launcher);
  place.rank = variables.integer(names.rank, 0, place.ranks - 1, launcher);
  if (names.local_ranks != nullptr)
    place.local_ranks = variables.integer(names.local_ranks, 1, place.ranks, launcher);
  if (names.local_rank != nullptr) {
    const std::int32_t last = names.local_ranks != nullptr ? place.local_ranks - 1 : place.rank;
    place.local_rank = variables.integer(names.local_rank, 0, last, launcher);
  }
  return place;
}

/// Of a run by what tells it from others on this host. Below the ports that Linux gives to whoever
/// asks for any, so that no other connection has it.
std::uint16_t port_of(std::string_view run) {
  constexpr std::uint64_t kFirst = 20'000, kPorts = 10'000;
  return static_cast<std::uint16_t>(kFirst + hash_of_text(run) % kPorts);
}

// ---- Launchers. Each: nothing where it is not the one; TANDEM_RENDEZVOUS is read later ----

std::optional<RankPlace> of_tandem(const Variables& variables) {
  if (!variables.has("TANDEM_RANK") && !variables.has("TANDEM_RANKS")) return std::nullopt;
  const char* const launcher = "tandem";
  RankPlace place = read_place(
      variables, {"TANDEM_RANK", "TANDEM_RANKS", "TANDEM_LOCAL_RANK", "TANDEM_LOCAL_RANKS"},
      launcher);
  place.restarts = variables.integer_or("TANDEM_RESTARTS", 0, launcher);
  place.copies = variables.text("TANDEM_COPIES");
  variables.needed("TANDEM_RENDEZVOUS", launcher);
  return place;
}

/// Also of what sets the same by hand, such as an operator of Kubernetes: a process a pod.
std::optional<RankPlace> of_torchrun(const Variables& variables) {
  if (!variables.has("RANK") || !variables.has("WORLD_SIZE")) return std::nullopt;
  const char* const launcher = "torchrun";
  PlaceNames names{"RANK", "WORLD_SIZE", nullptr, nullptr};
  if (variables.has("LOCAL_RANK")) names.local_rank = "LOCAL_RANK";
  if (variables.has("LOCAL_WORLD_SIZE")) names.local_ranks = "LOCAL_WORLD_SIZE";
  RankPlace place = read_place(variables, names, launcher);
  place.restarts = variables.integer_or("TORCHELASTIC_RESTART_COUNT", 0, launcher);
  if (variables.has("TANDEM_RENDEZVOUS")) return place;
  if (!place.all_here()) place.rendezvous_host = variables.needed("MASTER_ADDR", launcher);
  const std::int32_t port = variables.integer("MASTER_PORT", 1, kLastPort, launcher);
  // The agent's own store listens at MASTER_PORT where it says so: then the one behind it, so that
  // who opens ports to hosts knows it, and on one host one that nobody is given meanwhile.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") != "True") {
    place.rendezvous_port = static_cast<std::uint16_t>(port);
  } else if (place.all_here()) {
    place.rendezvous_port =
        port_of(fmt::format("{}:{}", variables.text("TORCHELASTIC_RUN_ID"), port));
  } else {
    place.rendezvous_port = static_cast<std::uint16_t>(port < kLastPort ? port + 1 : port - 1);
  }
  return place;
}

/// Launchers of MPI tell no address: a run on one host is known by `run`.
RankPlace with_loopback(RankPlace place, const Variables& variables, const std::string& run) {
  if (variables.has("TANDEM_RENDEZVOUS")) return place;
  if (!place.all_here())
    throw InputError(fmt::format(
        "{} says that {} of {} ranks run on this host, not where rank 0 listens: give --rendezvous "
        "HOST:PORT, or TANDEM_RENDEZVOUS in the environment",
        place.launcher, place.local_ranks, place.ranks));
  place.rendezvous_port = port_of(run);
  return place;
}

std::optional<RankPlace> of_open_mpi(const Variables& variables) {
  if (!variables.has("OMPI_COMM_WORLD_RANK") && !variables.has("OMPI_COMM_WORLD_SIZE"))
    return std::nullopt;
  const RankPlace place = read_place(variables,
                                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                     "Open MPI");
  // Both of version 4, the first of version 5 too.
  std::string run = variables.text("PMIX_NAMESPACE");
  if (run.empty()) run = variables.text("OMPI_MCA_ess_base_jobid");
  return with_loopback(place, variables, run);
}

/// Hydra's, which Intel MPI has too. Slurm's own PMI sets the first two alone.
std::optional<RankPlace> of_mpich(const Variables& variables) {
  if (!variables.has("PMI_RANK") || !variables.has("MPI_LOCALRANKID")) return std::nullopt;
  const RankPlace place = read_place(
      variables, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, "MPICH");
  // Nothing tells one run from another. Two at once have folders of their own, mostly.
  return with_loopback(place, variables, "MPICH in " + variables.text("PWD"));
}

/// Of "2(x3),1": tasks of the node with this number.
std::int32_t tasks_of_node(const std::string& text, std::int32_t node) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t open = part.find("(x");
    const auto tasks = number_in<std::int32_t>(part.substr(0, open));
    std::optional<std::int32_t> nodes = 1;
    if (open != std::string_view::npos)
      nodes = part.ends_with(')')
                  ? number_in<std::int32_t>(part.substr(open + 2, part.size() - open - 3))
                  : std::nullopt;
    if (!tasks || *tasks < 1 || !nodes || *nodes < 1) break;
    if (node < *nodes) return *tasks;
    node -= *nodes;
  }
  throw InputError(fmt::format(
      "SLURM_STEP_TASKS_PER_NODE: expected tasks of each node, such as 2(x3),1, found \"{}\"",
      text));
}

/// Of "node[01-03,7],gpu1" the first: "node01".
std::string first_host(const std::string& hosts) {
  std::string first;
  bool skips = false, inside = false;
  for (const char c : hosts) {
    if (c == '[' && !inside) {
      inside = true;
    } else if (c == ']' && inside) {
      inside = skips = false;
    } else if (inside) {
      skips |= c == ',' || c == '-';
      if (!skips) first += c;
    } else {
      if (c == ',') break;
      first += c;
    }
  }
  if (first.empty() || inside)
    throw InputError(fmt::format(
        "SLURM_STEP_NODELIST: expected hosts, such as node[1-3,7], found \"{}\"", hosts));
  return first;
}

/// A task of a step. A batch script and salloc's shell, which see variables of their job, are
/// alone.
std::optional<RankPlace> of_slurm(const Variables& variables) {
  if (!variables.has("SLURM_STEP_NUM_TASKS") || !variables.has("SLURM_PROCID")) return std::nullopt;
  const char* const launcher = "Slurm";
  RankPlace place =
      read_place(variables, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr, nullptr}, launcher);
  place.local_ranks = tasks_of_node(variables.needed("SLURM_STEP_TASKS_PER_NODE", launcher),
                                    variables.integer("SLURM_NODEID", 0, kMost, launcher));
  place.local_rank = variables.integer("SLURM_LOCALID", 0, place.local_ranks - 1, launcher);
  place.restarts = variables.integer_or("SLURM_RESTART_COUNT", 0, launcher);
  if (variables.has("TANDEM_RENDEZVOUS")) return place;
  // Rank 0 is on the first node of the step. SLURM_LAUNCH_NODE_IPADDR would be where srun was
  // called, which may be a login node.
  if (!place.all_here())
    place.rendezvous_host = first_host(variables.needed("SLURM_STEP_NODELIST", launcher));
  place.rendezvous_port =
      port_of(fmt::format("Slurm {}.{}", variables.needed("SLURM_JOB_ID", launcher),
                          variables.needed("SLURM_STEP_ID", launcher)));
  return place;
}

/// What else has PMIx tells the rank, not of how many.
std::optional<RankPlace> of_pmix(const Variables& variables) {
  if (!variables.has("PMIX_RANK")) return std::nullopt;
  throw InputError(fmt::format(
      "PMIX_RANK: \"{}\" comes from a launcher that does not say how many ranks there are: start "
      "them by tandem launch, torchrun, mpirun or srun",
      variables.text("PMIX_RANK")));
}

}  // namespace

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void read_rendezvous(const std::string& name, const std::string& text, RankPlace& place) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  const auto port = number_in<std::int32_t>(
      std::string_view(text).substr(colon == std::string::npos ? text.size() : colon + 1));
  if (colon == std::string::npos || host.empty() ||
      (!brackets && host.find(':') != std::string::npos) || !port || *port < 1 || *port > kLastPort)
    throw InputError(fmt::format("{}: expected HOST:PORT, found \"{}\"", name, text));
  place.rendezvous_host = host;
  place.rendezvous_port = static_cast<std::uint16_t>(*port);
}

std::optional<RankPlace> find_rank_place(const LookUp& look) {
  const Variables variables(look);
  // Who stands first was started last: by srun mpirun or torchrun may be.
  for (const auto& launcher : {of_tandem, of_torchrun, of_open_mpi, of_mpich, of_slurm, of_pmix}) {
    std::optional<RankPlace> place = launcher(variables);
    if (!place) continue;
    if (const std::string given = variables.text("TANDEM_RENDEZVOUS"); !given.empty())
      read_rendezvous("TANDEM_RENDEZVOUS", given, *place);
    return place;
  }
  return std::nullopt;
}

}  // namespace tandem
