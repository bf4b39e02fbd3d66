#pragma once
// Ideals of a graph: sets of nodes with all that feeds them. What stands before a cut is one.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem {

/// Some of a graph's nodes.
class NodeSet {
 public:
  explicit NodeSet(std::size_t nodes = 0) : words_((nodes + 63) / 64) {}

  bool has(std::size_t node) const { return (words_[node / 64] >> (node % 64) & 1) != 0; }
  void add(std::size_t node) { words_[node / 64] |= std::uint64_t{1} << (node % 64); }
  void remove(std::size_t node) { words_[node / 64] &= ~(std::uint64_t{1} << (node % 64)); }
  bool holds(const NodeSet& other) const;
  std::size_t hash() const;
  friend bool operator==(const NodeSet&, const NodeSet&) = default;

 private:
  std::vector<std::uint64_t> words_;
};

/// A directed graph; `next` of a node are those that it feeds.
struct NodeGraph {
  std::vector<std::vector<std::size_t>> next, before;

  explicit NodeGraph(std::size_t nodes) : next(nodes), before(nodes) {}
  std::size_t size() const { return next.size(); }
  void add_edge(std::size_t from, std::size_t to) {
    next[from].push_back(to);
    before[to].push_back(from);
  }
};

/// All of a graph's ideals, each behind those that it holds: the empty one is first, that of all
/// nodes last. Throws InputError where there are more than `most`. REQUIRES: the graph has no
/// cycle.
std::vector<NodeSet> ideals_of(const NodeGraph& graph, std::size_t most);

}  // namespace tandem
