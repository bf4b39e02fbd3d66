#include "planner/published/operator_classes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tandem {

namespace {

constexpr double kNoTimeAtAll = 1e-6;

/// Sets that grow together.
class Joined {
 public:
  explicit Joined(std::size_t count) : of_(count) { std::iota(of_.begin(), of_.end(), 0U); }
  std::size_t of(std::size_t one) {
    while (of_[one] != one) one = of_[one] = of_[of_[one]];
    return one;
  }
  void join(std::size_t a, std::size_t b) { of_[of(a)] = of(b); }

 private:
  std::vector<std::size_t> of_;
};

class Classing {
 public:
  explicit Classing(const OperatorGraph& graph) : graph_(graph), joined_(graph.nodes.size()) {
    std::map<std::int64_t, std::size_t> first;
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      if (!graph.nodes[node].color) continue;
      const auto [place, unknown] = first.try_emplace(*graph.nodes[node].color, node);
      if (!unknown) joined_.join(node, place->second);
    }
    join_cycles();
    while (join_idle()) join_cycles();
  }

  OperatorClasses classes() {
    OperatorClasses made;
    std::map<std::size_t, std::size_t> place;
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      const auto [at, unknown] = place.try_emplace(joined_.of(node), made.classes.size());
      if (unknown) made.classes.emplace_back();
      OperatorClass& of = made.classes[at->second];
      const OperatorNode& one = graph_.nodes[node];
      of.nodes.push_back(node);
      of.accelerator_time += one.accelerator_time;
      of.processor_time += one.processor_time;
      of.bytes += one.bytes;
      of.on_accelerators = of.on_accelerators && one.on_accelerators;
    }
    made.order = NodeGraph(made.classes.size());
    for (const auto& [from, to] : order_edges()) made.order.add_edge(place.at(from), place.at(to));
    std::vector<std::set<std::size_t>> to(graph_.nodes.size());
    for (const auto& [from, target] : graph_.edges) {
      if (joined_.of(from) != joined_.of(target)) to[from].insert(place.at(joined_.of(target)));
    }
    std::map<std::pair<std::size_t, std::vector<std::size_t>>, double> times;
    for (std::size_t node = 0; node < to.size(); ++node) {
      if (!to[node].empty() && graph_.nodes[node].transfer_time > 0.0)
        times[{place.at(joined_.of(node)), {to[node].begin(), to[node].end()}}] +=
            graph_.nodes[node].transfer_time;
    }
    for (const auto& [ends, time] : times) made.senders.push_back({ends.first, ends.second, time});
    return made;
  }

 private:
  /// Classes that have a forward operator.
  std::set<std::size_t> with_forwards() {
    std::set<std::size_t> classes;
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node) {
      if (!graph_.nodes[node].backward) classes.insert(joined_.of(node));
    }
    return classes;
  }

  /// Between classes, each once.
  std::set<std::pair<std::size_t, std::size_t>> order_edges() {
    const std::set<std::size_t> forwards = with_forwards();
    std::set<std::pair<std::size_t, std::size_t>> edges;
    for (const auto& [from, to] : graph_.edges) {
      const std::size_t a = joined_.of(from), b = joined_.of(to);
      if (a == b) continue;
      if (!graph_.nodes[from].backward && !graph_.nodes[to].backward) edges.emplace(a, b);
      if (graph_.nodes[from].backward && graph_.nodes[to].backward &&
          (!forwards.contains(a) || !forwards.contains(b)))
        edges.emplace(b, a);
    }
    return edges;
  }

  /// Tarjan's strongly connected components.
  void join_cycles() {
    std::map<std::size_t, std::vector<std::size_t>> next;
    for (const auto& [from, to] : order_edges()) next[from].push_back(to);
    std::map<std::size_t, std::size_t> number, low;
    std::set<std::size_t> open;
    std::vector<std::size_t> stack;
    std::vector<std::pair<std::size_t, std::size_t>> found;
    const auto visit = [&](const auto& self, std::size_t one) -> void {
      number[one] = low[one] = number.size();
      stack.push_back(one);
      open.insert(one);
      for (const std::size_t other : next[one]) {
        if (!number.contains(other)) {
          self(self, other);
          low[one] = std::min(low[one], low[other]);
        } else if (open.contains(other)) {
          low[one] = std::min(low[one], number[other]);
        }
      }
      if (low[one] != number[one]) return;
      for (std::size_t last = one + 1; last != one;) {
        last = stack.back();
        stack.pop_back();
        open.erase(last);
        if (last != one) found.emplace_back(last, one);
      }
    };
    std::vector<std::size_t> starts;
    for (const auto& [from, to] : next) starts.push_back(from);
    for (const std::size_t one : starts) {
      if (!number.contains(one)) visit(visit, one);
    }
    for (const auto& [a, b] : found) joined_.join(a, b);
  }

  /// Whether a class joined another: it adds nothing there but bytes.
  bool join_idle() {
    std::map<std::size_t, double> time;
    std::map<std::size_t, std::set<std::size_t>> neighbours;
    for (std::size_t node = 0; node < graph_.nodes.size(); ++node)
      time[joined_.of(node)] +=
          graph_.nodes[node].accelerator_time + graph_.nodes[node].processor_time;
    for (const auto& [from, to] : graph_.edges) {
      const std::size_t a = joined_.of(from), b = joined_.of(to);
      if (a == b) continue;
      neighbours[a].insert(b);
      neighbours[b].insert(a);
    }
    bool any = false;
    for (const auto& [one, others] : neighbours) {
      if (time[one] >= kNoTimeAtAll || others.size() != 1 || joined_.of(one) != one) continue;
      joined_.join(one, *others.begin());
      any = true;
    }
    return any;
  }

  const OperatorGraph& graph_;
  Joined joined_;
};

}  // namespace

OperatorClasses classes_of(const OperatorGraph& graph) { return Classing(graph).classes(); }

}  // namespace tandem
