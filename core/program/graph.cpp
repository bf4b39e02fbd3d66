#include "core/program/graph.h"

#include <algorithm>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/howard_cycle_ratio.hpp>
#include <fmt/format.h>

namespace tandem {

namespace {

using WaitGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<boost::edge_weight_t, double, boost::property<boost::edge_weight2_t, double>>>;

/// Calls visit(before, after, bodies) for each lane's neighbours, the last of a body before the
/// first of the next.
template <class Visit>
void for_each_lane_step(const Program& program, Visit visit) {
  constexpr auto kNobody = static_cast<InstructionId>(~std::uint32_t{0});
  Table<LaneId, InstructionId> first(program.lanes().size(), kNobody),
      last(program.lanes().size(), kNobody);
  for (const InstructionId id : program.order()) {
    for (const LaneId lane : program.lanes(program[id])) {
      if (last[lane] == kNobody)
        first[lane] = id;
      else
        visit(last[lane], id, 0u);
      last[lane] = id;
    }
  }
  for (const LaneId lane : ids(first)) {
    if (first[lane] != kNobody) visit(last[lane], first[lane], 1u);
  }
}

}  // namespace

double maximum_cycle_ratio(const Program& program, const CostTable& costs) {
  WaitGraph graph(program.size());
  const auto join = [&](InstructionId before, InstructionId after, std::uint32_t bodies) {
    const auto time = static_cast<double>(costs[program[before].cost].count());
    boost::add_edge(index(before), index(after), {time, {static_cast<double>(bodies)}}, graph);
  };
  for_each_lane_step(program, join);
  for (const InstructionId id : program.order()) {
    for (const Wait& wait : program.waits(program[id])) join(wait.producer, id, wait.lag);
  }
  // Where all costs are zero Boost finds no maximum and answers −∞.
  return std::max(0.0, boost::maximum_cycle_ratio(graph, boost::get(boost::vertex_index, graph),
                                                  boost::get(boost::edge_weight, graph),
                                                  boost::get(boost::edge_weight2, graph)));
}

void to_dot(const Program& program, const TextSink& out) {
  out(fmt::format("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n", program.schedule()));
  Table<DeviceId, std::vector<InstructionId>> of_device(program.placement().devices);
  for (const InstructionId id : program.order())
    of_device[program.cost_keys()[program[id].cost].source].push_back(id);
  for (const DeviceId device : ids(of_device)) {
    out(fmt::format("  subgraph cluster_{0} {{\n    label=\"device {0}\";\n", index(device)));
    for (const InstructionId id : of_device[device])
      out(fmt::format("    n{} [label=\"{}\"];\n", index(id), describe(program, id)));
    out("  }\n");
  }
  for_each_lane_step(program, [&](InstructionId before, InstructionId after, std::uint32_t bodies) {
    if (bodies == 0)
      out(fmt::format("  n{} -> n{} [style=dotted];\n", index(before), index(after)));
  });
  for (const InstructionId id : program.order()) {
    for (const Wait& wait : program.waits(program[id])) {
      out(wait.lag == 0 ? fmt::format("  n{} -> n{};\n", index(wait.producer), index(id))
                        : fmt::format("  n{} -> n{} [style=dashed, label=\"{}\"];\n",
                                      index(wait.producer), index(id), wait.lag));
    }
  }
  out("}\n");
}

}  // namespace tandem
