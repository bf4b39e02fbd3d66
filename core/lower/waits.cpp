// The transfers and waits of a body: what each op needs, by name.

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/lower/body.h"

namespace tandem::lowering {

namespace {

struct Connector {
  const Schedule& schedule_;
  const OpIndex& index_;
  Body& body_;
  const Placement& placement_ = schedule_.placement;
  const std::int32_t m_ = schedule_.microbatches;

  void connect() {
    body_.transfers.reserve(2 * placement_.edges.size() * at(m_));
    for (const Placement::Edge& edge : placement_.edges) add_edge(edge);
    for (std::vector<NodeId>* next : {&body_.next_from, &body_.next_to}) {
      if (!next->empty()) next->resize(body_.transfers.size(), kNone);
    }
    for (std::size_t node = 0; node < body_.ops.size(); ++node)
      add_local_waits(static_cast<NodeId>(node));
    if (!index_.evict.nodes.empty()) take_turns();
  }

  const Op& op(NodeId node) const { return body_.ops[at(node)].op; }
  Split place(NodeId node) const { return split(op(node).microbatch, m_); }

  /// Bodies between the producer's and the consumer's instance of one batch.
  std::int32_t bodies_between(NodeId producer, NodeId consumer) const {
    if (op(producer).microbatch == op(consumer).microbatch) return 0;  // most, and soon seen
    return place(producer).batch - place(consumer).batch;
  }
  std::uint32_t lag(NodeId producer, NodeId consumer) const {
    return lag_of(producer, consumer, bodies_between(producer, consumer));
  }

  std::uint32_t lag_of(NodeId producer, NodeId consumer, std::int32_t bodies) const {
    if (bodies >= 0) return static_cast<std::uint32_t>(bodies);
    throw InfeasibleError(fmt::format(
        "schedule \"{}\": {} needs {}, which the loop makes {} bodies later", schedule_.name,
        describe(schedule_, body_, consumer), describe(schedule_, body_, producer), -bodies));
  }

  /// Both may stand for several microbatches of a batch, the last of which is their own.
  void wait_for(NodeId consumer, NodeId producer) {
    if (producer == kNone) return;  // what is not there, verify() misses
    add_wait({consumer, producer, lag(producer, consumer)});
  }

  /// Unless the order of their lane implies it: ops of one device that are no sums run one after
  /// the other, as they are numbered. Between groups the first waits, for the last.
  void add_wait(NodeWait wait) {
    if ((op(wait.consumer).group | op(wait.producer).group) != 0 &&
        body_.first_of_group(wait.consumer) != body_.first_of_group(wait.producer)) {
      wait.consumer = body_.first_of_group(wait.consumer);
      wait.producer = body_.last_of_group(wait.producer);
    }
    if (share_compute_lane(op(wait.consumer), op(wait.producer)) &&
        (wait.lag > 0 || wait.producer < wait.consumer))
      return;
    body_.waits.push_back(wait);
    if (wait.lag == 0) ++body_.ops[at(wait.consumer)].pending;
  }

  bool share_compute_lane(const Op& a, const Op& b) const {
    return on_compute_lane(a.kind) && on_compute_lane(b.kind) &&
           (a.replica == b.replica || placement_.device[a.replica] == placement_.device[b.replica]);
  }

  void add_edge(const Placement::Edge& edge) {
    const DeviceId above = placement_.device[edge.from], below = placement_.device[edge.to];
    const bool apart = above != below;
    const auto down = static_cast<std::uint32_t>(body_.links.size());
    const std::size_t made = body_.transfers.size();
    if (apart) {
      body_.links.push_back({OpKind::send_activation, edge.from, edge.to, above, below});
      if (!schedule_.forwards_alone)
        body_.links.push_back({OpKind::send_gradient, edge.to, edge.from, below, above});
    }
    for (std::int32_t residue = 0; residue < m_; ++residue) {
      const NodeId from = index_.forward(edge.from, residue);
      const NodeId to = index_.forward(edge.to, residue);
      if (from == kNone || to == kNone) continue;
      const NodeId back_from = index_.input_gradient(edge.to, residue);
      const NodeId back_to = index_.input_gradient(edge.from, residue);
      if (apart) {
        carry(from, to, down);
        if (back_from != kNone) carry(back_from, back_to, down + 1);
      } else {
        wait_for(to, from);
        wait_for(back_to, back_from);
      }
    }
    if (body_.transfers.size() == made && apart) body_.links.resize(down);
  }

  /// Lets `consumer` wait for what `producer` made, through a transfer.
  void carry(NodeId producer, NodeId consumer, std::uint32_t link) {
    const std::int32_t bodies = bodies_between(producer, consumer);
    body_.transfers.push_back({.producer = producer, .consumer = consumer, .link = link});
    const auto self = static_cast<NodeId>(body_.size() - 1);
    const std::uint32_t lag = body_.transfers.back().lag = lag_of(self, consumer, bodies);
    const NodeId first = body_.first_of_group(consumer);
    body_.transfers.back().consumer = first;
    if (lag == 0) ++body_.ops[at(first)].pending;
    append(body_.ops[at(body_.last_of_group(producer))].first_from, body_.next_from);
    append(body_.ops[at(first)].first_to, body_.next_to);
  }

  /// The last transfer, to the list of an op that begins with `first`.
  void append(NodeId& first, std::vector<NodeId>& next) const {
    const auto self = static_cast<NodeId>(body_.size() - 1);
    if (first == kNone) {
      first = self;
      return;
    }
    next.resize(body_.transfers.size(), kNone);
    NodeId last = first;
    while (body_.next(next, last) != kNone) last = body_.next(next, last);
    next[at(last) - body_.ops.size()] = self;
  }

  void add_local_waits(NodeId self) {
    const Op& own = op(self);
    const std::int32_t residue = place(self).residue;
    switch (own.kind) {
      case OpKind::forward:
        wait_for_version(self);
        break;
      case OpKind::recompute:
      case OpKind::evict:
        wait_for(self, index_.forward(own.replica, residue));
        break;
      case OpKind::backward:
      case OpKind::backward_input: {
        const NodeId again = index_.recompute(own.replica, residue);
        wait_for(self, again != kNone ? again : index_.forward(own.replica, residue));
        wait_for(self, index_.load(own.replica, residue));
        if (mixes_versions(schedule_.version_rule)) wait_for_version(self);
        break;
      }
      case OpKind::backward_weight:
        for (std::int32_t i = 0; i < own.span; ++i)
          wait_for(self, index_.input_gradient(own.replica, residue - i));
        break;
      case OpKind::reduce_tied:
      case OpKind::reduce_gradient:
      case OpKind::reduce_norm:
        for (const ReplicaId replica : body_.sum(self).replicas) wait_for_gradients(self, replica);
        break;
      case OpKind::update:
        wait_for_gradients(self, own.replica);
        break;
      case OpKind::validate: {
        wait_for(self, index_.sum(OpKind::reduce_norm, own.replica, residue));
        const std::vector<NodeId>& updates = index_.updates(own.replica);
        wait_for(self, updates[at(index_.update_covering(own.replica, residue))]);
        break;
      }
      case OpKind::load:
        wait_for(self, index_.evict(own.replica, residue));
        break;
      case OpKind::send_activation:
      case OpKind::send_gradient:
        break;
    }
  }

  /// Stashes that are evicted have one slot of their stage's device in turn, each from its forward
  /// until it is evicted, and from its load until its last gradient: in the order in which the
  /// device takes it, body after body.
  void take_turns() {
    struct Turn {
      NodeId taken, freed;
    };
    Table<ReplicaId, std::vector<Turn>> turns(placement_.replicas());
    for (std::size_t i = 0; i < body_.ops.size(); ++i) {
      const auto self = static_cast<NodeId>(i);
      const Op& own = op(self);
      if (own.kind != OpKind::forward && own.kind != OpKind::load) continue;
      const NodeId evict = index_.evict(own.replica, place(self).residue);
      if (evict == kNone) continue;
      const bool leaves = own.kind == OpKind::forward;
      turns[own.replica].push_back(
          {self, leaves ? evict : index_.weight_gradient(own.replica, place(self).residue)});
    }
    for (const std::vector<Turn>& of_replica : turns) {
      for (std::size_t i = 0; i < of_replica.size(); ++i) {
        const Turn& before = of_replica[i > 0 ? i - 1 : of_replica.size() - 1];
        const std::int32_t bodies =
            place(before.freed).batch - place(before.taken).batch + (i > 0 ? 0 : 1);
        const NodeId next = of_replica[i].taken;
        add_wait({next, before.freed, lag_of(before.freed, next, bodies)});
      }
    }
  }

  /// The last sum over devices that comes before `self` for the gradients of `replica`, or else the
  /// gradients themselves, of which the last to be made implies the others: they share a lane.
  void wait_for_gradients(NodeId self, ReplicaId replica) {
    const Op& own = op(self);
    const Split last = place(self);
    // Kinds stand in the order in which they act on a gradient.
    for (const OpKind kind : {OpKind::reduce_norm, OpKind::reduce_gradient, OpKind::reduce_tied}) {
      if (kind >= own.kind) continue;
      if (kind == OpKind::reduce_norm && index_.validation(replica, last.residue) != kNone)
        continue;
      const NodeId sum = index_.sum(kind, replica, last.residue);
      if (sum != kNone) return wait_for(self, sum);
    }
    NodeWait latest{self, kNone, 0};
    for (std::int32_t i = 0; i < own.span; ++i) {
      const NodeId gradient = index_.weight_gradient(replica, last.residue - i);
      if (gradient == kNone) continue;  // another replica's microbatch
      const std::uint32_t of = lag(gradient, self);
      const bool later = latest.producer == kNone || of < latest.lag ||
                         (of == latest.lag && gradient > latest.producer);
      if (later) latest = {self, gradient, of};
    }
    if (latest.producer != kNone) add_wait(latest);
  }

  /// What reads weights reads the version made `staleness` + 1 updates of its stage before the one
  /// that covers its microbatch.
  void wait_for_version(NodeId self) {
    if (schedule_.forwards_alone) return;  // there is one
    const Op& own = op(self);
    const Split at_batch = place(self);
    const std::vector<NodeId>& updates = index_.updates(own.replica);
    const auto count = static_cast<std::int32_t>(updates.size());
    const std::int32_t number =
        index_.update_covering(own.replica, at_batch.residue) - own.staleness - 1;
    const std::int32_t batches = floor_div(number, count);
    const NodeId maker = updates[at(number - batches * count)];
    const std::int32_t maker_body = batches - place(maker).batch;
    add_wait({self, maker, lag_of(maker, self, -at_batch.batch - maker_body)});
  }
};

/// Waits by their consumers, in their own order.
ByNode by_consumer(const std::vector<NodeWait>& waits, std::size_t nodes) {
  ByNode by;
  if (waits.empty()) return by;
  by.first.assign(nodes + 1, 0);
  for (const NodeWait& wait : waits) ++by.first[at(wait.consumer) + 1];
  std::partial_sum(by.first.begin(), by.first.end(), by.first.begin());
  by.list.resize(waits.size());
  for (std::uint32_t i = 0; i < waits.size(); ++i) by.list[by.first[at(waits[i].consumer)]++] = i;
  // Each consumer's first is now the next one's.
  std::copy_backward(by.first.begin(), by.first.end() - 1, by.first.end());
  by.first.front() = 0;
  return by;
}

}  // namespace

void connect(const Schedule& schedule, const OpIndex& index, Body& body) {
  Connector{schedule, index, body}.connect();
  body.waits_of = by_consumer(body.waits, body.ops.size());
}

}  // namespace tandem::lowering
