#include "planner/published/ideals.h"

#include <unordered_set>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

bool NodeSet::holds(const NodeSet& other) const {
  for (std::size_t word = 0; word < words_.size(); ++word) {
    if ((other.words_[word] & ~words_[word]) != 0) return false;
  }
  return true;
}

std::size_t NodeSet::hash() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words_)
    sum = (sum ^ word ^ (word >> 32)) * 0x9E3779B97F4A7C15ULL + (sum >> 29);
  return static_cast<std::size_t>(sum);
}

std::vector<NodeSet> ideals_of(const NodeGraph& graph, std::size_t most) {
  const auto hash = [](const NodeSet& set) { return set.hash(); };
  std::unordered_set<NodeSet, decltype(hash)> known(64, hash);
  std::vector<NodeSet> ideals{NodeSet(graph.size())};
  // By number of nodes, so that each is behind those that it holds.
  for (std::size_t at = 0; at < ideals.size(); ++at) {
    for (std::size_t node = 0; node < graph.size(); ++node) {
      if (ideals[at].has(node)) continue;
      bool fed = true;
      for (const std::size_t one : graph.before[node]) fed = fed && ideals[at].has(one);
      if (!fed) continue;
      NodeSet larger = ideals[at];
      larger.add(node);
      if (!known.insert(larger).second) continue;
      if (ideals.size() == most) {
        throw InputError(
            fmt::format("the graph can be cut in more than {} ways: join the nodes of its branches "
                        "first",
                        most));
      }
      ideals.push_back(std::move(larger));
    }
  }
  return ideals;
}

}  // namespace tandem
