#pragma once
// CriticalGraph: the part of a BindingGraph that holds all its critical paths, or all its critical
// circuits, and what these spend on some of their instances.

#include <cstdint>
#include <vector>

#include "core/program/cost.h"
#include "simulator/analysis/binding_graph.h"

namespace tandem {

/// Whether each span of a run with an end lies on a longest path from its start to `makespan`: if
/// it took longer, the run would. REQUIRES: `timeline` has every instance of the run, at most
/// kMostTraced with what bodies leave out.
std::vector<bool> critical_spans(const Program& program, const Timeline& timeline,
                                 Duration makespan);

class CriticalGraph {
 public:
  /// All longest paths of a run with an end, from its start to `makespan`: to an op that then ends
  /// on its own device, be it no transfer and no sum.
  static CriticalGraph paths(const Program& program, const BindingGraph& run, Duration makespan);
  /// All circuits of an endless run that repeats.
  static CriticalGraph circuits(const Program& program, const BindingGraph& cycle);

  /// Whether any instance has this price.
  bool has(CostId cost) const { return present_[index(cost)]; }

  struct Least {
    std::int64_t time = 0, cycles = 1;
  };
  /// Of all paths the least sum of `weights`, by price, over their instances.
  std::int64_t least_on_a_path(const std::vector<std::int64_t>& weights) const;
  /// Of all circuits the least such sum a cycle of the run. `cycle`: how long a cycle takes, and
  /// no weight is more than its price. Throws InputError when sums are too large to be compared.
  Least least_on_a_circuit(const std::vector<std::int64_t>& weights, Duration cycle) const;

 private:
  using Node = BindingGraph::Node;
  using Edge = BindingGraph::Edge;
  static constexpr std::uint32_t kNoEdge = BindingGraph::kNobody;

  CriticalGraph(const Program& program, const BindingGraph& graph, const std::vector<bool>& kept);
  std::size_t size() const { return costs_.size(); }
  std::vector<std::uint32_t> circuits_below(const Least& known,
                                            const std::vector<std::int64_t>& weights) const;
  bool least_of(const std::vector<std::uint32_t>& edge_of, const std::vector<std::int64_t>& weights,
                Least& least) const;

  std::vector<CostId> costs_;         // of each node
  std::vector<std::uint32_t> first_;  // into edges_, of each node; and one more
  std::vector<Edge> edges_;
  std::vector<bool> ends_;  // a path may end here
  std::vector<bool> present_;
};

}  // namespace tandem
