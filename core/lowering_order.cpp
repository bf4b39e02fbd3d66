#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "core/lowering.h"

namespace tandem::lowering {

namespace {

std::size_t at(std::int32_t node) { return static_cast<std::size_t>(node); }

std::int64_t unit_time(const Op& op) {
  if (op.kind == OpKind::backward) return 2;
  if (op.kind == OpKind::backward_weight) return op.span;
  return is_compute(op.kind) ? 1 : 0;
}

/// Nodes by integer start time; at one time transfers and sums come first, then first come, first
/// served.
class BucketQueue {
 public:
  void push(std::int64_t time, const Op& op, std::int32_t node) {
    const auto bucket = static_cast<std::size_t>(time);
    if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
    buckets_[bucket][is_compute(op.kind) ? 1 : 0].nodes.push_back(node);
  }

  /// The next node, or kNone. Times pushed are never before the last one popped.
  std::int32_t pop() {
    for (; now_ < buckets_.size(); ++now_) {
      for (Fifo& fifo : buckets_[now_]) {
        if (fifo.next < fifo.nodes.size()) return fifo.nodes[fifo.next++];
      }
      buckets_[now_] = {};
    }
    return kNone;
  }

 private:
  struct Fifo {
    std::vector<std::int32_t> nodes;
    std::size_t next = 0;
  };
  std::vector<std::array<Fifo, 2>> buckets_;
  std::size_t now_ = 0;
};

/// What must come before a node within one body: lag-0 producers and its device's op before it.
template <class Visit>
void for_each_before(const Node& node, Visit visit) {
  if (node.before != kNone) visit(node.before);
  for (const NodeWait& wait : node.waits) {
    if (wait.lag == 0) visit(wait.producer);
  }
}

/// A line a device, the culprit's ops marked.
std::string picture_of_cycle(const Schedule& schedule, const std::vector<Node>& nodes,
                             const std::vector<std::int32_t>& cycle) {
  std::string text;
  for (const std::int32_t member : cycle) {
    const Node& node = nodes[at(member)];
    const DeviceId device = node.devices.front();
    std::string line = fmt::format("  {} |", index(device)), marks(line.size(), ' ');
    const std::vector<Op>& order = schedule.order[device];
    const auto culprit = std::find(order.begin(), order.end(), node.op);
    if (culprit == order.end()) continue;
    const auto first = culprit - order.begin() > 6 ? culprit - 6 : order.begin();
    const auto last = order.end() - culprit > 6 ? culprit + 6 : order.end();
    for (auto op = first; op != last; ++op) {
      const std::string word = fmt::format(" {}{}", traits(op->kind).notation, op->microbatch);
      line += word;
      marks +=
          op == culprit ? " " + std::string(word.size() - 1, '^') : std::string(word.size(), ' ');
    }
    marks.erase(marks.find_last_not_of(' ') + 1);
    text += fmt::format("\n{}\n{}", line, marks);
  }
  return text;
}

[[noreturn]] void report_cycle(const Schedule& schedule, const std::vector<Node>& nodes,
                               const std::vector<std::int32_t>& pending) {
  std::int32_t node = kNone;
  for (std::size_t i = 0; i < nodes.size() && node == kNone; ++i) {
    if (pending[i] > 0) node = static_cast<std::int32_t>(i);
  }
  // Every stuck node has a stuck producer: walking back must come round.
  std::vector<std::int32_t> path;
  std::vector<bool> seen(nodes.size(), false);
  while (!seen[at(node)]) {
    seen[at(node)] = true;
    path.push_back(node);
    std::int32_t blocker = kNone;
    for_each_before(nodes[at(node)], [&](std::int32_t before) {
      if (pending[at(before)] > 0 && blocker == kNone) blocker = before;
    });
    TANDEM_CHECK(blocker != kNone, node);
    node = blocker;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::string text = fmt::format(
      "schedule \"{}\" would deadlock, a cycle of {} waits:", schedule.name, path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::int32_t blocker = path[(i + 1) % path.size()];
    const bool in_order = nodes[at(path[i])].before == blocker;
    text +=
        fmt::format("\n  {} {} {}", describe(schedule, nodes[at(path[i])]),
                    in_order ? "comes after" : "waits for", describe(schedule, nodes[at(blocker)]));
  }
  throw InfeasibleError(text + picture_of_cycle(schedule, nodes, path));
}

}  // namespace

std::vector<std::int32_t> order_by_unit_start(const Schedule& schedule,
                                              const std::vector<Node>& nodes) {
  std::vector<std::int32_t> pending(nodes.size(), 0);
  std::vector<std::int32_t> first_after(nodes.size() + 1, 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for_each_before(nodes[i], [&](std::int32_t before) {
      ++pending[i];
      ++first_after[at(before) + 1];
    });
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) first_after[i + 1] += first_after[i];
  std::vector<std::int32_t> after(at(first_after.back()));
  std::vector<std::int32_t> fill(first_after.begin(), first_after.end() - 1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for_each_before(nodes[i], [&](std::int32_t before) {
      after[at(fill[at(before)]++)] = static_cast<std::int32_t>(i);
    });
  }
  std::vector<std::int64_t> start(nodes.size(), 0);
  BucketQueue queue;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (pending[i] == 0) queue.push(0, nodes[i].op, static_cast<std::int32_t>(i));
  }
  std::vector<std::int32_t> order;
  order.reserve(nodes.size());
  for (std::int32_t node = queue.pop(); node != kNone; node = queue.pop()) {
    order.push_back(node);
    const std::int64_t end = start[at(node)] + unit_time(nodes[at(node)].op);
    for (std::int32_t i = first_after[at(node)]; i < first_after[at(node) + 1]; ++i) {
      const std::int32_t next = after[at(i)];
      start[at(next)] = std::max(start[at(next)], end);
      if (--pending[at(next)] == 0) queue.push(start[at(next)], nodes[at(next)].op, next);
    }
  }
  if (order.size() != nodes.size()) report_cycle(schedule, nodes, pending);
  return order;
}

std::vector<NodeWait> needed_waits(const std::vector<Node>& nodes, std::int32_t node,
                                   const std::vector<std::int32_t>& position) {
  const std::vector<LaneId>& own = nodes[at(node)].lanes;
  std::vector<NodeWait> kept;
  for (const NodeWait& wait : nodes[at(node)].waits) {
    const std::vector<LaneId>& lanes = nodes[at(wait.producer)].lanes;
    const bool same_lane = std::any_of(lanes.begin(), lanes.end(), [&](LaneId lane) {
      return std::find(own.begin(), own.end(), lane) != own.end();
    });
    if (same_lane) continue;
    // Of producers on one lane the latest implies the others: least lag, then last in order.
    const auto rival = std::find_if(kept.begin(), kept.end(), [&](const NodeWait& other) {
      const std::vector<LaneId>& theirs = nodes[at(other.producer)].lanes;
      return !lanes.empty() && !theirs.empty() && lanes.front() == theirs.front();
    });
    if (rival == kept.end()) {
      kept.push_back(wait);
    } else if (std::pair(wait.lag, -position[at(wait.producer)]) <
               std::pair(rival->lag, -position[at(rival->producer)])) {
      *rival = wait;
    }
  }
  return kept;
}

}  // namespace tandem::lowering
