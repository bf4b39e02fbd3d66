#pragma once
// Inside of lower(): the order of a body, by start time at unit cost, from a queue of buckets.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/lower/body.h"

namespace tandem::lowering {

inline std::int32_t unit_time(const Op& op) {
  if (op.kind == OpKind::backward) return 2;
  if (op.kind == OpKind::backward_weight) return op.span;
  return is_compute(op.kind) ? 1 : 0;
}

/// Nodes by integer start time; at one time transfers and sums come first, then first come, first
/// served. A queue is a list through the nodes, so that no bucket owns memory.
class BucketQueue {
 public:
  explicit BucketQueue(std::size_t nodes) : next_(nodes) {}

  /// What follows each node in its list; of a node that was popped, free for use.
  NodeId& next(NodeId node) { return next_[at(node)]; }

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

/// A topological order of lag-0 waits and device orders, by start time at unit cost (F = B = W = 1,
/// whole backward 2, all else 0), ties to transfers and sums.
class UnitOrder {
 public:
  /// `body` must outlive it; its nodes keep how far it is.
  explicit UnitOrder(Body& body);

  /// The next node; kNone after the last. A node at a time, so that who takes it finds near what
  /// finding it has touched.
  NodeId next() {
    const NodeId node = queue_.pop();
    if (node == kNone) return kNone;
    queue_.next(node) = static_cast<NodeId>(given_++);
    if (body_.is_transfer(node)) {
      const Transfer& transfer = body_.transfer(node);
      if (transfer.lag == 0) ended(queue_.now(), transfer.consumer);
    } else {
      end_op(node, queue_.now() + unit_time(body_.ops[at(node)].op));
    }
    return node;
  }

  /// Of a node that was given: how many were before it.
  std::uint32_t position(NodeId node) { return static_cast<std::uint32_t>(queue_.next(node)); }

  /// After the last one: throws InfeasibleError with the wait cycle when some nodes have no place.
  void check_complete(const Schedule& schedule) const;

 private:
  /// Some of what comes before the op never ran.
  bool stuck(NodeId op) const { return body_.ops[at(op)].pending > 0; }

  void push(std::int32_t time, NodeId node) {
    queue_.push(time, is_compute(body_.ops[at(node)].op.kind), node);
  }

  void ended(std::int32_t end, NodeId next) {
    OpNode& node = body_.ops[at(next)];
    node.start = std::max(node.start, end);
    if (--node.pending == 0) push(node.start, next);
  }

  /// Those that come after it in the order of their numbers, transfers last.
  void end_op(NodeId node, std::int32_t end) {
    __builtin_prefetch(&body_.ops[std::min(at(node) + kSoon, body_.ops.size() - 1)]);
    NodeId after = body_.after_on_device(node);
    if (!waiters_.empty()) {
      auto waiter = std::lower_bound(waiters_.begin(), waiters_.end(), std::pair(node, NodeId{0}));
      for (; waiter != waiters_.end() && waiter->first == node; ++waiter) {
        if (after != kNone && after < waiter->second) ended(end, std::exchange(after, kNone));
        ended(end, waiter->second);
      }
    }
    if (after != kNone) ended(end, after);
    for (NodeId carries = body_.ops[at(node)].first_from; carries != kNone;
         carries = body_.next(body_.next_from, carries)) {
      __builtin_prefetch(&body_.transfer(carries));
      queue_.push(end, false, carries);
    }
  }

  /// A device's ops stand in a row, but those of hundreds of devices are taken in turn: no
  /// processor foresees which is next. So many on it is fetched.
  static constexpr std::size_t kSoon = 8;

  Body& body_;
  std::vector<std::pair<NodeId, NodeId>> waiters_;  // producer, consumer
  BucketQueue queue_;
  std::size_t given_ = 0;
};

}  // namespace tandem::lowering
