#include "simulator/analysis/binding_graph.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"

namespace tandem {

void check_traceable(const Program& program, std::string_view what, std::int64_t batches) {
  const auto size = static_cast<std::int64_t>(std::max<std::size_t>(program.size(), 1));
  const std::int64_t most = kMostTraced / size - program.ramp();
  if (batches <= most) return;
  throw InputError(fmt::format(
      "{} of {} batches of {} instructions is too long to follow what waits for what: at most {}",
      what, batches, size, std::max<std::int64_t>(most, 0)));
}

BindingGraph::BindingGraph(const Program& program, const Timeline& timeline)
    : body_size_(program.size()), first_body_(-program.ramp()), repeats_(false) {
  std::int64_t last = first_body_ - 1;
  for (const Span& span : timeline.spans) last = std::max(last, span.body);
  read_times(timeline, static_cast<std::size_t>(last - first_body_ + 1));
  find_edges(program, Table<LaneId, Edge>(program.lanes().size()));
}

BindingGraph::BindingGraph(const Program& program, const Timeline& timeline, Duration cycle)
    : body_size_(program.size()),
      first_body_(timeline.spans.empty() ? 0 : timeline.spans.front().body),
      repeats_(true),
      cycle_(cycle) {
  TANDEM_CHECK(program.size() > 0 && timeline.spans.size() % program.size() == 0,
               timeline.spans.size(), program.size());
  read_times(timeline, timeline.spans.size() / program.size());
  // What the first body finds on its lanes is the last body's, a cycle before.
  Table<LaneId, Edge> last(program.lanes().size());
  const std::size_t last_body = size() - body_size_;
  for (const InstructionId id : program.order()) {
    for (const LaneId lane : program.lanes(program[id]))
      last[lane] = {static_cast<Node>(last_body + index(id)), 1};
  }
  find_edges(program, std::move(last));
}

void BindingGraph::read_times(const Timeline& timeline, std::size_t bodies) {
  start_.assign(bodies * body_size_, Duration(-1));
  end_ = start_;
  TANDEM_CHECK(size() < kNobody, size());
  for (const Span& span : timeline.spans) {
    const std::size_t node =
        static_cast<std::size_t>(span.body - first_body_) * body_size_ + index(span.instruction);
    start_[node] = span.start;
    end_[node] = span.end;
  }
}

void BindingGraph::find_edges(const Program& program, Table<LaneId, Edge> last) {
  first_.reserve(size() + 1);
  for (Node node = 0; node < size(); ++node) {
    first_.push_back(static_cast<std::uint32_t>(edges_.size()));
    if (!ran(node)) continue;
    const Instruction& instruction = program[this->instruction(node)];
    for (const LaneId lane : program.lanes(instruction)) {
      add_edge(last[lane], node);
      last[lane] = {node, 0};
    }
    for (const Wait& wait : program.waits(instruction))
      add_edge(before(static_cast<std::int64_t>(node / body_size_), wait), node);
  }
  first_.push_back(static_cast<std::uint32_t>(edges_.size()));
}

void BindingGraph::add_edge(Edge edge, Node node) {
  if (edge.from == kNobody || !ran(edge.from)) return;
  if (end(edge.from) - edge.cycles * cycle_ != start(node)) return;
  const auto row = edges_.begin() + first_.back();
  if (std::find(row, edges_.end(), edge) == edges_.end()) edges_.push_back(edge);
}

/// Whom an instance of the `body`-th body held waits for.
BindingGraph::Edge BindingGraph::before(std::int64_t body, const Wait& wait) const {
  const auto bodies = static_cast<std::int64_t>(size() / body_size_);
  body -= wait.lag;
  if (body < 0 && !repeats_) return {};
  const std::int64_t cycles = body < 0 ? (bodies - 1 - body) / bodies : 0;
  const auto place = static_cast<std::size_t>(body + cycles * bodies);
  return {static_cast<Node>(place * body_size_ + index(wait.producer)),
          static_cast<std::uint32_t>(cycles)};
}

}  // namespace tandem
