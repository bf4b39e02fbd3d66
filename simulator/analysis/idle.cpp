#include "simulator/analysis/idle.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/program/title.h"
#include "simulator/analysis/binding_graph.h"

namespace tandem {

namespace {

Span span_of(const BindingGraph& graph, BindingGraph::Node node) {
  return {graph.instruction(node), graph.body(node), graph.start(node), graph.end(node)};
}

Bubble ended_by(const BindingGraph& graph, BindingGraph::Node next, Duration start) {
  Bubble bubble{
      .start = start, .end = graph.start(next), .next = span_of(graph, next), .chain = {}};
  BindingGraph::Node node = next;
  while (graph.start(node) > start && !graph.held_by(node).empty()) {
    node = graph.held_by(node).front().from;
    const Duration time = graph.end(node) - std::max(start, graph.start(node));
    if (time > Duration::zero()) bubble.chain.push_back({span_of(graph, node), time});
  }
  return bubble;
}

LaneId compute_lane(const Program& program, DeviceId device) {
  for (const LaneId lane : ids(program.lanes())) {
    const Lane& of = program.lanes()[lane];
    if (of.kind == LaneKind::compute && of.device == device) return lane;
  }
  TANDEM_CHECK(false, index(device));
  return {};
}

}  // namespace

std::vector<Bubble> bubbles_of(const Program& program, const Timeline& timeline, DeviceId device) {
  const BindingGraph graph(program, timeline);
  const LaneId lane = compute_lane(program, device);
  std::vector<Bubble> found;
  Duration until{}, end{};
  for (BindingGraph::Node node = 0; node < graph.size(); ++node) {
    if (!graph.ran(node)) continue;
    const Instruction& instruction = program[graph.instruction(node)];
    if (on_compute_lane(instruction.op.kind)) end = std::max(end, graph.end(node));
    if (std::ranges::count(program.lanes(instruction), lane) == 0) continue;
    if (graph.start(node) > until) found.push_back(ended_by(graph, node, until));
    until = graph.end(node);
  }
  if (end > until) found.push_back({.start = until, .end = end, .last = true, .chain = {}});
  return found;
}

std::string cause(const Program& program, InstructionId id, std::string_view which) {
  const Instruction& instruction = program[id];
  const CostKey& key = program.cost_keys()[instruction.cost];
  std::string text = words(name(key.kind));
  text += which;
  if (is_collective(key.kind)) return text;
  const Placement& placement = program.placement();
  if (placement.replicas() > placement.devices)
    text += fmt::format(" of stage {}", index(key.replica));
  if (!is_transfer(key.kind)) return text + fmt::format(" on device {}", index(key.source));
  const TransferEnds ends = ends_of(key);
  return text + fmt::format(" {}→{}", index(ends.from), index(ends.to));
}

std::vector<Cause> causes_of(const Program& program, const std::vector<Bubble>& bubbles) {
  std::map<std::string, Cause> by_name;
  for (const Bubble& bubble : bubbles) {
    std::map<std::string, Duration> here;
    if (bubble.last) here["nothing: other devices finish the run"] = bubble.time();
    for (const HeldUp& held : bubble.chain)
      here[cause(program, held.span.instruction)] += held.time;
    for (const auto& [name, time] : here) {
      Cause& of = by_name[name];
      of.name = name;
      of.time += time;
      ++of.bubbles;
    }
  }
  std::vector<Cause> causes;
  causes.reserve(by_name.size());
  for (const auto& [name, of] : by_name) causes.push_back(of);
  std::ranges::stable_sort(causes, std::ranges::greater{}, &Cause::time);
  return causes;
}

}  // namespace tandem
