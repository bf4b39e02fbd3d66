// The order of a body: by start time at unit cost, from a queue of buckets.

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "core/lowering.h"

namespace tandem::lowering {

namespace {

std::int32_t unit_time(const Op& op) {
  if (op.kind == OpKind::backward) return 2;
  if (op.kind == OpKind::backward_weight) return op.span;
  return is_compute(op.kind) ? 1 : 0;
}

/// Nodes by integer start time; at one time transfers and sums come first, then first come, first
/// served. A queue is a list through the nodes, so that no bucket owns memory.
class BucketQueue {
 public:
  explicit BucketQueue(std::size_t nodes) : next_(nodes) {}

  void push(std::int32_t time, bool computes, NodeId node) {
    const auto bucket = static_cast<std::size_t>(time);
    if (bucket >= buckets_.size()) buckets_.resize(std::max(bucket + 1, buckets_.size() * 2));
    Fifo& fifo = buckets_[bucket][computes ? 1 : 0];
    (fifo.first == kNone ? fifo.first : next_[at(fifo.last)]) = node;
    fifo.last = node;
    next_[at(node)] = kNone;
  }

  /// The next node, or kNone. Times pushed are never before the last one popped.
  NodeId pop() {
    for (; now_ < buckets_.size(); ++now_) {
      for (Fifo& fifo : buckets_[now_]) {
        if (fifo.first != kNone) return std::exchange(fifo.first, next_[at(fifo.first)]);
      }
    }
    return kNone;
  }
  /// The time of what was popped last.
  std::int32_t now() const { return static_cast<std::int32_t>(now_); }

 private:
  struct Fifo {
    NodeId first = kNone, last = kNone;
  };
  std::vector<std::array<Fifo, 2>> buckets_;
  std::vector<NodeId> next_;
  std::size_t now_ = 0;
};

/// What must come before a node within one body: its device's op before it and lag-0 producers.
template <class Visit>
void for_each_before(const Body& body, NodeId node, Visit visit) {
  if (body.is_transfer(node)) return visit(body.transfer(node).producer);
  if (body.before[at(node)] != kNone) visit(body.before[at(node)]);
  for (const std::uint32_t i : body.transfers_to.of(node)) {
    if (body.transfers[i].lag == 0) visit(static_cast<NodeId>(body.ops.size() + i));
  }
  for (const std::uint32_t i : body.waits_of.of(node)) {
    if (body.waits[i].lag == 0) visit(body.waits[i].producer);
  }
}

/// A line a device, the culprit's ops marked.
std::string picture_of_cycle(const Schedule& schedule, const Body& body,
                             const std::vector<NodeId>& cycle) {
  std::string text;
  for (const NodeId member : cycle) {
    if (body.is_transfer(member)) continue;
    const DeviceId device = body.device(member, schedule.placement);
    std::string line = fmt::format("  {} |", index(device)), marks(line.size(), ' ');
    const std::vector<Op>& order = schedule.order[device];
    const auto culprit = std::find(order.begin(), order.end(), body.ops[at(member)]);
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

/// `pending`: of each op, how many of those that come before it never ran.
[[noreturn]] void report_cycle(const Schedule& schedule, const Body& body,
                               const std::vector<std::uint32_t>& pending) {
  const auto stuck = [&](NodeId node) {
    return pending[at(body.is_transfer(node) ? body.transfer(node).producer : node)] > 0;
  };
  NodeId node = 0;
  while (!stuck(node)) ++node;
  // Every stuck node has a stuck producer: walking back must come round.
  std::vector<NodeId> path;
  std::vector<bool> seen(body.size(), false);
  while (!seen[at(node)]) {
    seen[at(node)] = true;
    path.push_back(node);
    NodeId blocker = kNone;
    for_each_before(body, node, [&](NodeId before) {
      if (blocker == kNone && stuck(before)) blocker = before;
    });
    TANDEM_CHECK(blocker != kNone, node);
    node = blocker;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::string text = fmt::format(
      "schedule \"{}\" would deadlock, a cycle of {} waits:", schedule.name, path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    const NodeId blocker = path[(i + 1) % path.size()];
    const bool in_order = !body.is_transfer(path[i]) && body.before[at(path[i])] == blocker;
    text += fmt::format("\n  {} {} {}", describe(schedule, body, path[i]),
                        in_order ? "comes after" : "waits for", describe(schedule, body, blocker));
  }
  throw InfeasibleError(text + picture_of_cycle(schedule, body, path));
}

class UnitOrder {
 public:
  explicit UnitOrder(const Body& body)
      : body_(body), pending_(body.ops.size(), 0), start_(body.ops.size(), 0), queue_(body.size()) {
    for (std::size_t i = 0; i < body.ops.size(); ++i) pending_[i] = body.before[i] != kNone;
    for (const Transfer& transfer : body.transfers) {
      if (transfer.lag == 0) ++pending_[at(transfer.consumer)];
    }
    for (const NodeWait& wait : body.waits) {
      if (wait.lag > 0) continue;
      ++pending_[at(wait.consumer)];
      waiters_.emplace_back(wait.producer, wait.consumer);
    }
    std::sort(waiters_.begin(), waiters_.end());
  }

  std::vector<NodeId> find() {
    std::vector<NodeId> order;
    order.reserve(body_.size());
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (pending_[i] == 0) push(0, static_cast<NodeId>(i));
    }
    for (NodeId node = queue_.pop(); node != kNone; node = queue_.pop()) {
      order.push_back(node);
      if (body_.is_transfer(node)) {
        const Transfer& transfer = body_.transfer(node);
        if (transfer.lag == 0) ended(queue_.now(), transfer.consumer);
      } else {
        end_op(node, queue_.now() + unit_time(body_.ops[at(node)]));
      }
    }
    return order;
  }
  const std::vector<std::uint32_t>& pending() const { return pending_; }

 private:
  void push(std::int32_t time, NodeId node) {
    queue_.push(time, is_compute(body_.ops[at(node)].kind), node);
  }

  void ended(std::int32_t end, NodeId next) {
    start_[at(next)] = std::max(start_[at(next)], end);
    if (--pending_[at(next)] == 0) push(start_[at(next)], next);
  }

  /// Those that come after it in the order of their numbers, transfers last.
  void end_op(NodeId node, std::int32_t end) {
    NodeId after = after_on_device(node);
    if (!waiters_.empty()) {
      auto waiter = std::lower_bound(waiters_.begin(), waiters_.end(), std::pair(node, NodeId{0}));
      for (; waiter != waiters_.end() && waiter->first == node; ++waiter) {
        if (after != kNone && after < waiter->second) ended(end, std::exchange(after, kNone));
        ended(end, waiter->second);
      }
    }
    if (after != kNone) ended(end, after);
    for (const std::uint32_t i : body_.transfers_from.of(node)) {
      queue_.push(end, false, static_cast<NodeId>(body_.ops.size() + i));
    }
  }

  /// The op that has this one before it: the next number but for sums between them.
  NodeId after_on_device(NodeId node) const {
    if (is_collective(body_.ops[at(node)].kind)) return kNone;
    for (std::size_t i = at(node) + 1; i < body_.ops.size(); ++i) {
      if (body_.before[i] == node) return static_cast<NodeId>(i);
      if (!is_collective(body_.ops[i].kind)) break;
    }
    return kNone;
  }

  const Body& body_;
  std::vector<std::uint32_t> pending_;  // of each op: how many before it have not ended
  std::vector<std::int32_t> start_;
  std::vector<std::pair<NodeId, NodeId>> waiters_;  // producer, consumer
  BucketQueue queue_;
};

}  // namespace

std::vector<NodeId> order_by_unit_start(const Schedule& schedule, const Body& body) {
  UnitOrder unit_order(body);
  std::vector<NodeId> order = unit_order.find();
  if (order.size() != body.size()) report_cycle(schedule, body, unit_order.pending());
  return order;
}

}  // namespace tandem::lowering
