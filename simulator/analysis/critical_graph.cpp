#include "simulator/analysis/critical_graph.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

CriticalGraph::CriticalGraph(const Program& program, const BindingGraph& graph,
                             const std::vector<bool>& kept)
    : present_(program.cost_keys().size(), false) {
  std::vector<Node> number(graph.size(), BindingGraph::kNobody);
  for (Node node = 0; node < graph.size(); ++node) {
    if (!kept[node]) continue;
    number[node] = static_cast<Node>(size());
    costs_.push_back(program[graph.instruction(node)].cost);
    present_[index(costs_.back())] = true;
  }
  first_.reserve(size() + 1);
  for (Node node = 0; node < graph.size(); ++node) {
    if (!kept[node]) continue;
    first_.push_back(static_cast<std::uint32_t>(edges_.size()));
    for (const Edge& edge : graph.held_by(node)) {
      if (kept[edge.from]) edges_.push_back({number[edge.from], edge.cycles});
    }
  }
  first_.push_back(static_cast<std::uint32_t>(edges_.size()));
}

namespace {

struct PathNodes {
  std::vector<bool> kept;  // of all nodes: on a longest path
  std::vector<bool> ends;  // of those that are, in their order: one may end there
};

PathNodes nodes_of_paths(const Program& program, const BindingGraph& run, Duration makespan) {
  PathNodes nodes{std::vector<bool>(run.size(), false), {}};
  for (auto node = static_cast<BindingGraph::Node>(run.size()); node-- > 0;) {
    if (!run.ran(node)) continue;
    const bool last =
        run.end(node) == makespan && on_compute_lane(program[run.instruction(node)].op.kind);
    nodes.kept[node] = nodes.kept[node] || last;
    if (!nodes.kept[node]) continue;
    nodes.ends.push_back(last);
    for (const BindingGraph::Edge& edge : run.held_by(node)) nodes.kept[edge.from] = true;
  }
  std::reverse(nodes.ends.begin(), nodes.ends.end());
  return nodes;
}

}  // namespace

std::vector<bool> critical_spans(const Program& program, const Timeline& timeline,
                                 Duration makespan) {
  const BindingGraph run(program, timeline);
  const std::vector<bool> kept = nodes_of_paths(program, run, makespan).kept;
  std::vector<bool> critical;
  for (const Span& span : timeline.spans)
    critical.push_back(kept[run.node(span.instruction, span.body)]);
  return critical;
}

CriticalGraph CriticalGraph::paths(const Program& program, const BindingGraph& run,
                                   Duration makespan) {
  PathNodes nodes = nodes_of_paths(program, run, makespan);
  CriticalGraph graph(program, run, nodes.kept);
  graph.ends_ = std::move(nodes.ends);
  return graph;
}

CriticalGraph CriticalGraph::circuits(const Program& program, const BindingGraph& cycle) {
  // What leads to no circuit is left out, again and again from its ends.
  std::vector<std::uint32_t> leads_to(cycle.size(), 0);
  for (Node node = 0; node < cycle.size(); ++node) {
    for (const Edge& edge : cycle.held_by(node)) ++leads_to[edge.from];
  }
  std::vector<bool> kept(cycle.size(), true);
  std::vector<Node> out;
  for (Node node = 0; node < cycle.size(); ++node) {
    if (leads_to[node] == 0) out.push_back(node);
  }
  while (!out.empty()) {
    const Node node = out.back();
    out.pop_back();
    kept[node] = false;
    for (const Edge& edge : cycle.held_by(node)) {
      if (--leads_to[edge.from] == 0) out.push_back(edge.from);
    }
  }
  return {program, cycle, kept};
}

std::int64_t CriticalGraph::least_on_a_path(const std::vector<std::int64_t>& weights) const {
  std::vector<std::int64_t> least(size());
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (Node node = 0; node < size(); ++node) {
    const std::span edges =
        std::span(edges_).subspan(first_[node], first_[node + 1] - first_[node]);
    // Whoever starts at the very start waited for nobody, or for what takes no time.
    std::int64_t before = edges.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
    for (const Edge& edge : edges) before = std::min(before, least[edge.from]);
    least[node] = before + weights[index(costs_[node])];
    if (ends_[node]) best = std::min(best, least[node]);
  }
  return size() == 0 ? 0 : best;
}

CriticalGraph::Least CriticalGraph::least_on_a_circuit(const std::vector<std::int64_t>& weights,
                                                       Duration cycle) const {
  // Whoever repeats waits for somebody, so that following the first edges ends in a circuit.
  std::vector<std::uint32_t> any(first_.begin(), first_.end() - 1);
  Least least;
  if (!least_of(any, weights, least)) return {};
  long double crossings = 1.0L;
  for (const Edge& edge : edges_) crossings += edge.cycles;
  do {
    // Paths along edges take as long as they last, so this bounds every number below.
    const long double most = 2.0L * static_cast<long double>(cycle.count()) * crossings *
                             static_cast<long double>(least.cycles);
    if (most >= 0x1p62L) throw InputError("a cycle of the endless run takes too long to compare");
  } while (least_of(circuits_below(least, weights), weights, least));
  return least;
}

/// The edges, one a node, of a graph that holds a circuit of a smaller ratio than `known`; none: no
/// circuit has one. Bellman and Ford's search for a circuit of negative length, where a node is as
/// long as its weight, less what `known` allows: one round over all nodes in their order does what
/// within a cycle depends on it.
std::vector<std::uint32_t> CriticalGraph::circuits_below(
    const Least& known, const std::vector<std::int64_t>& weights) const {
  std::vector<std::int64_t> length(size(), 0);
  std::vector<std::uint32_t> edge_of(size(), kNoEdge);
  while (true) {
    bool changed = false;
    for (Node node = 0; node < size(); ++node) {
      const std::int64_t own = weights[index(costs_[node])] * known.cycles;
      for (std::uint32_t e = first_[node]; e < first_[node + 1]; ++e) {
        const Edge& edge = edges_[e];
        const std::int64_t by = length[edge.from] + own - known.time * edge.cycles;
        if (by >= length[node]) continue;
        length[node] = by;
        edge_of[node] = e;
        changed = true;
      }
    }
    if (!changed) return {};
    Least found;
    if (least_of(edge_of, weights, found)) return edge_of;
  }
}

/// The least of the circuits along these edges; false: there is none.
bool CriticalGraph::least_of(const std::vector<std::uint32_t>& edge_of,
                             const std::vector<std::int64_t>& weights, Least& least) const {
  std::vector<Node> seen_from(edge_of.size(), BindingGraph::kNobody);
  bool found = false;
  for (Node from = 0; from < edge_of.size(); ++from) {
    Node node = from;
    while (seen_from[node] == BindingGraph::kNobody && edge_of[node] != kNoEdge) {
      seen_from[node] = from;
      node = edges_[edge_of[node]].from;
    }
    if (seen_from[node] != from || edge_of[node] == kNoEdge) continue;
    Least circuit{0, 0};
    const Node first = node;
    do {
      const Edge& edge = edges_[edge_of[node]];
      circuit.time += weights[index(costs_[node])];
      circuit.cycles += edge.cycles;
      node = edge.from;
    } while (node != first);
    TANDEM_CHECK(circuit.cycles > 0, first);
    // Ratios: a/b < c/d where a·d < c·b.
    if (!found || circuit.time * least.cycles < least.time * circuit.cycles) least = circuit;
    found = true;
  }
  return found;
}

}  // namespace tandem
