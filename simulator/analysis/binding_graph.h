#pragma once
// BindingGraph: why each instance of a run started when it did. An instance starts the moment that
// the last of those it waits for, on its lanes or by a wait, ends; an edge joins it with each that
// ended at that moment. Critical paths and circuits run along such edges alone.

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "core/program/program.h"
#include "core/program/timeline.h"

namespace tandem {

/// Instances of a run, or of a cycle of an endless one, that may be held in memory for this.
inline constexpr std::int64_t kMostTraced = 8'000'000;
/// Throws InputError when `batches` of the program have more. `what` is that long: "a run".
void check_traceable(const Program& program, std::string_view what, std::int64_t batches);

class BindingGraph {
 public:
  /// An instance. Those of a body stand together, in the program's order.
  using Node = std::uint32_t;
  static constexpr Node kNobody = std::numeric_limits<Node>::max();

  struct Edge {
    Node from = kNobody;
    std::uint32_t cycles = 0;  // how many cycles of an endless run before; 0 in a run with an end
    friend bool operator==(const Edge&, const Edge&) = default;
  };

  /// Of a whole run. REQUIRES: `timeline` has its every instance.
  BindingGraph(const Program& program, const Timeline& timeline);
  /// Of an endless run. REQUIRES: `timeline` has all instances of as many bodies in a row as make a
  /// cycle, body by body; each instance of the next cycle is `cycle` later.
  BindingGraph(const Program& program, const Timeline& timeline, Duration cycle);

  /// So many nodes; not all of them need have run.
  std::size_t size() const { return end_.size(); }
  /// REQUIRES: the instance ran.
  Node node(InstructionId instruction, std::int64_t body) const {
    return static_cast<Node>(static_cast<std::size_t>(body - first_body_) * body_size_ +
                             index(instruction));
  }
  bool ran(Node node) const { return end_[node] >= Duration::zero(); }
  Duration start(Node node) const { return start_[node]; }
  Duration end(Node node) const { return end_[node]; }
  InstructionId instruction(Node node) const { return id_at<InstructionId>(node % body_size_); }
  std::int64_t body(Node node) const {
    return first_body_ + static_cast<std::int64_t>(node / body_size_);
  }
  /// Those on its lanes first, then what it waits for. In a run with an end all are nodes before
  /// it.
  std::span<const Edge> held_by(Node node) const {
    return std::span(edges_).subspan(first_[node], first_[node + 1] - first_[node]);
  }

 private:
  void read_times(const Timeline& timeline, std::size_t bodies);
  void find_edges(const Program& program, Table<LaneId, Edge> last);
  void add_edge(Edge edge, Node node);
  Edge before(std::int64_t body, const Wait& wait) const;

  std::size_t body_size_;
  std::int64_t first_body_;
  bool repeats_;
  Duration cycle_{};
  std::vector<Duration> start_, end_;  // −1: did not run
  std::vector<std::uint32_t> first_;   // into edges_, of each node; and one more
  std::vector<Edge> edges_;
};

}  // namespace tandem
