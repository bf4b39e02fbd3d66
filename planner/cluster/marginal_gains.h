#pragma once
// What more of a cluster would be worth: the best plans of clusters that have a little more of one
// thing, and what the next best plan loses.

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "planner/cluster/cluster_search.h"

namespace tandem {

/// What a cluster has of each device or link.
enum class Supply : std::uint8_t {
  compute,              // peak of products, in each number format
  memory_rate,          // of the devices' memory
  memory,               // its size
  links_in_nodes,       // rates of links within groups that hold devices themselves
  links_between_nodes,  // of all other links
};
inline constexpr std::array kSupplies{Supply::compute, Supply::memory_rate, Supply::memory,
                                      Supply::links_in_nodes, Supply::links_between_nodes};
/// "compute", "memory rate", "memory", "links in nodes", "links between nodes".
std::string_view name(Supply supply);

/// The question for a cluster whose devices and links have `times` as much of it. Prices that are
/// given or measured in seconds stay as they are. REQUIRES: times > 0.
ClusterQuestion with_more(ClusterQuestion question, Supply supply, double times);

/// Times as much memory as makes no difference any more.
inline constexpr double kAnyAmount = 1000.0;

/// The best plan there; its value is of the question's objective.
struct MarginalGain {
  Supply supply{};
  double times = 1.0;
  ClusterCandidate best;
  bool proved = true;  // not stopped early
};

/// With 1.01 times as much of each, and last with any amount of memory. Ends with those so far when
/// it is stopped. REQUIRES: a plan fits as it is. Throws as find_cluster_plans().
std::vector<MarginalGain> marginal_gains(const ClusterQuestion& question,
                                         const std::function<bool()>& stop = {});

/// A step of a plan: what its busiest device computes, and how long that waits for others.
struct StepParts {
  double computes_s = 0.0, waits_s = 0.0;
};
StepParts parts_of_step(const ClusterCandidate& of);

/// Whether both have one layout and schedule, however their layers are cut into stages.
bool same_shape(const ClusterCandidate& a, const ClusterCandidate& b);

}  // namespace tandem
