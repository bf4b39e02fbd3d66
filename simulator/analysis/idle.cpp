#include "simulator/analysis/idle.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/program/title.h"
#include "simulator/analysis/binding_graph.h"

namespace tandem {

namespace {

class Chains {
 public:
  Chains(const Program& program, const Timeline& timeline)
      : program_(program), graph_(program, timeline) {}

  std::vector<Bubble> bubbles(LaneId lane) const {
    std::vector<Bubble> found;
    Duration until{}, end{};
    for (BindingGraph::Node node = 0; node < graph_.size(); ++node) {
      if (!graph_.ran(node)) continue;
      const Instruction& instruction = program_[graph_.instruction(node)];
      if (on_compute_lane(instruction.op.kind)) end = std::max(end, graph_.end(node));
      const auto lanes = program_.lanes(instruction);
      if (std::ranges::find(lanes, lane) == lanes.end()) continue;
      if (graph_.start(node) > until) found.push_back(ended_by(node, until));
      until = graph_.end(node);
    }
    if (end > until) found.push_back({.start = until, .end = end, .last = true, .chain = {}});
    return found;
  }

 private:
  Span span(BindingGraph::Node node) const {
    return {graph_.instruction(node), graph_.body(node), graph_.start(node), graph_.end(node)};
  }

  Bubble ended_by(BindingGraph::Node next, Duration start) const {
    Bubble bubble{.start = start, .end = graph_.start(next), .next = span(next), .chain = {}};
    BindingGraph::Node node = next;
    while (graph_.start(node) > start && !graph_.held_by(node).empty()) {
      node = graph_.held_by(node).front().from;
      const Duration time = graph_.end(node) - std::max(start, graph_.start(node));
      if (time > Duration::zero()) bubble.chain.push_back({span(node), time});
    }
    return bubble;
  }

  const Program& program_;
  BindingGraph graph_;
};

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
  return Chains(program, timeline).bubbles(compute_lane(program, device));
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
