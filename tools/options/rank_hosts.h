#pragma once
// Where the ranks of a run are started.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::tools {

struct RankHost {
  std::string name;
  std::int32_t slots = 1;  // ranks that it takes
};

/// A host a line, "node1 slots=4", as mpirun's host files have it; # begins a comment. Throws
/// InputError with every line that is none.
std::vector<RankHost> parse_hosts(std::string_view text, const std::string& file);

struct RankSeat {
  std::string host;
  std::int32_t local_rank = 0, local_ranks = 1;
};

/// Those of `ranks` ranks, filling one host after the other; 0: of as many as there are slots.
/// Throws InputError where there are too few.
std::vector<RankSeat> seats_on(const std::vector<RankHost>& hosts, std::int32_t ranks);

/// Whether the name is one of this machine.
bool is_this_host(const std::string& name);
/// Its own.
std::string this_host();

}  // namespace tandem::tools
