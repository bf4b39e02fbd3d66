#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/lower/body.h"

namespace tandem::lowering {

namespace {

template <class... Values>
[[noreturn]] void reject(const Schedule& schedule, fmt::format_string<Values...> reason,
                         Values&&... values) {
  throw InputError(fmt::format("schedule \"{}\": {}", schedule.name,
                               fmt::format(reason, std::forward<Values>(values)...)));
}

std::vector<ReplicaId> participants(const Placement& placement, const Op& op) {
  const StageId stage = placement.stage[op.replica];
  if (op.kind == OpKind::reduce_gradient) return placement.replicas_of(stage);
  std::vector<ReplicaId> replicas;
  if (op.kind == OpKind::reduce_norm) {
    for (const ReplicaId replica : ids(placement.stage)) replicas.push_back(replica);
    return replicas;
  }
  replicas = placement.replicas_tied_with(op.replica);
  std::sort(replicas.begin(), replicas.end());
  return replicas;
}

void check_op(const Schedule& schedule, DeviceId device, const Op& op) {
  if (index(op.replica) >= schedule.placement.replicas()) {
    reject(schedule, "device {} runs an op of stage {}, which does not exist", index(device),
           index(op.replica));
  }
  if (schedule.placement.device[op.replica] != device) {
    reject(schedule, "device {} runs an op of stage {}, which is on device {}", index(device),
           index(op.replica), index(schedule.placement.device[op.replica]));
  }
  if (op.microbatch < 0 || op.span < 1 ||
      op.span > split(op.microbatch, schedule.microbatches).residue + 1) {
    reject(schedule,
           "{} of stage {} has microbatch offset {} and span {}: a span must stay "
           "inside one batch",
           name(op.kind), index(op.replica), op.microbatch, op.span);
  }
}

/// Whose stash goes where. A stash that backward computes again is not there to be moved.
void check_move(const Schedule& schedule, DeviceId device, const Op& op) {
  const Table<DeviceId, DeviceId>& partner = schedule.placement.partner;
  if (partner.size() != schedule.placement.devices ||
      index(partner[device]) >= schedule.placement.devices || partner[device] == device) {
    reject(schedule, "{} {} of stage {}: device {} has no partner", name(op.kind), op.microbatch,
           index(op.replica), index(device));
  }
  if (op.span == 1) return;
  reject(schedule, "{} {} of stage {} spans {} microbatches: a stash holds one", name(op.kind),
         op.microbatch, index(op.replica), op.span);
}

/// What rests on slices of a microbatch being worked on in a row, on one device.
void check_slices(const Schedule& schedule) {
  if (schedule.slices == 1) return;
  const Placement& placement = schedule.placement;
  if (placement.replicas() != placement.stages())
    reject(schedule, "where sequences are sliced, a stage has one replica");
  for (const std::vector<Op>& order : schedule.order) {
    for (const Op& op : order) {
      if (moves_stash(op.kind)) {
        reject(schedule, "{} {} of stage {}: a slice's keys and values are read by later slices",
               name(op.kind), op.microbatch, index(op.replica));
      }
      if (!is_compute(op.kind) || (op.span == 1 && op.group == 0)) continue;
      reject(schedule, "{} {} of stage {}: slices are worked on one by one", name(op.kind),
             op.microbatch, index(op.replica));
    }
  }
}

/// An op that stands next to another of its group.
void check_group(const Schedule& schedule, const Op& before, const Op& op) {
  if (op.group == 0 || op.group != before.group) return;
  if (!is_compute(op.kind) || !is_compute(before.kind)) {
    reject(schedule,
           "group {} of stage {}: only forwards, recomputations and backwards can be "
           "one unit",
           op.group, index(op.replica));
  }
  if (split(op.microbatch, schedule.microbatches).batch ==
      split(before.microbatch, schedule.microbatches).batch)
    return;
  reject(schedule,
         "group {} has {} {} and {} {}, of two batches: at the ends of a run only one "
         "of them would run",
         op.group, name(before.kind), before.microbatch, name(op.kind), op.microbatch);
}

/// Neighbours on a device with one Op::group.
void find_groups(Body& body) {
  const auto grouped = [](const OpNode& node) { return node.op.group != 0; };
  if (std::ranges::none_of(body.ops, grouped)) return;
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const auto self = static_cast<NodeId>(i);
    const Op& op = body.ops[i].op;
    const NodeId before = body.ops[i].before;
    const bool joins =
        op.group != 0 && before != kNone && body.ops[at(before)].op.group == op.group;
    const NodeId first = joins ? body.groups[at(before)].first : self;
    body.groups.push_back({.first = first, .last = self});
    Group& whole = body.groups[at(first)];
    whole.last = self;
    whole.mixed = whole.mixed || op.kind != body.ops[at(first)].op.kind;
  }
  for (Group& group : body.groups) group = body.groups[at(group.first)];
}

}  // namespace

const Sum& Body::sum(NodeId node) const {
  const auto found = std::ranges::lower_bound(sums, node, {}, &Sum::node);
  TANDEM_CHECK(found != sums.end() && found->node == node, node);
  return *found;
}

Body ops_of(const Schedule& schedule) {
  check_slices(schedule);
  Body body;
  std::size_t count = 0;
  for (const std::vector<Op>& order : schedule.order) count += order.size();
  body.ops.reserve(count);
  std::map<std::tuple<OpKind, ReplicaId, std::int32_t>, NodeId> together;
  for (const DeviceId device : ids(schedule.order)) {
    NodeId before = kNone;
    for (const Op& op : schedule.order[device]) {
      check_op(schedule, device, op);
      const auto self = static_cast<NodeId>(body.ops.size());
      if (moves_stash(op.kind)) {
        check_move(schedule, device, op);
        body.starts.push_back(self);
        body.ops.push_back({.op = op});
        continue;
      }
      if (!is_collective(op.kind)) {
        const bool first = before == kNone;
        if (first) body.starts.push_back(self);
        if (!first) check_group(schedule, body.ops[at(before)].op, op);
        body.ops.push_back(
            {.op = op, .before = std::exchange(before, self), .pending = first ? 0u : 1u});
        continue;
      }
      std::vector<ReplicaId> replicas = participants(schedule.placement, op);
      if (replicas.empty())
        reject(schedule, "a tied sum needs tied stages, with as many replicas each");
      const auto key = std::tuple(op.kind, replicas.front(), op.microbatch % schedule.microbatches);
      if (!together.try_emplace(key, self).second) continue;
      body.starts.push_back(self);
      body.ops.push_back({.op = op});
      body.ops.back().op.replica = replicas.front();
      std::vector<DeviceId> devices;
      for (const ReplicaId replica : replicas)
        devices.push_back(schedule.placement.device[replica]);
      std::sort(devices.begin(), devices.end());
      devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
      body.sums.push_back({self, std::move(devices), std::move(replicas)});
    }
  }
  find_groups(body);
  return body;
}

OpIndex::OpIndex(const Schedule& schedule, const Body& body)
    : schedule_(schedule),
      body_(body),
      m_(schedule.microbatches),
      updates_(schedule.placement.replicas()) {
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i].op;
    const auto node = static_cast<NodeId>(i);
    if (op.kind == OpKind::forward) record(forward, op, node);
    if (op.kind == OpKind::recompute) record(recompute, op, node);
    if (makes_input_gradient(op.kind)) record(input_gradient, op, node);
    if (makes_weight_gradient(op.kind)) record(weight_gradient, op, node);
    if (op.kind == OpKind::update) updates_[op.replica].push_back(node);
    if (op.kind == OpKind::validate)
      place(validation, op.replica, split(op.microbatch, m_).residue) = node;
    if (moves_stash(op.kind)) record(op.kind == OpKind::evict ? evict : load, op, node);
  }
  for (const Sum& sum : body.sums) {
    const Op& op = body.ops[at(sum.node)].op;
    for (const ReplicaId replica : sum.replicas)
      place(sums_[index(op.kind)], replica, split(op.microbatch, m_).residue) = sum.node;
  }
  record_updates();
  check_complete();
  check_evictions();
}

inline NodeId& OpIndex::place(NodeTable& table, ReplicaId replica, std::int32_t residue) const {
  if (table.nodes.empty()) {
    table.m = m_;
    table.nodes.assign(schedule_.placement.replicas() * at(m_), kNone);
  }
  return table.nodes[table.cell(replica, residue)];
}

inline void OpIndex::record(NodeTable& table, const Op& op, NodeId node) const {
  const std::int32_t last = split(op.microbatch, m_).residue;
  for (std::int32_t residue = last; residue > last - op.span; --residue) {
    NodeId& before = place(table, op.replica, residue);
    if (before != kNone) {
      reject(schedule_, "stage {} has {} of microbatch {} twice", index(op.replica), name(op.kind),
             residue);
    }
    before = node;
  }
}

void OpIndex::record_updates() {
  if (schedule_.forwards_alone) return;
  const auto residue = [&](NodeId node) {
    return split(body_.ops[at(node)].op.microbatch, m_).residue;
  };
  for (const ReplicaId replica : ids(updates_)) {
    std::vector<NodeId>& updates = updates_[replica];
    std::ranges::sort(updates, {}, residue);
    std::int32_t covered = 0;
    for (const NodeId update : updates) {
      if (residue(update) - body_.ops[at(update)].op.span + 1 != covered) {
        reject(schedule_, "the updates of stage {} do not cover microbatch {} exactly once",
               index(replica), covered);
      }
      covered = residue(update) + 1;
    }
    if (covered != m_)
      reject(schedule_, "no update of stage {} covers microbatch {}", index(replica), covered);
  }
}

std::int32_t OpIndex::update_covering(ReplicaId replica, std::int32_t residue) const {
  const std::vector<NodeId>& updates = updates_[replica];
  if (updates.size() == 1) return 0;
  const auto covering = std::ranges::lower_bound(updates, residue, {}, [&](NodeId node) {
    return split(body_.ops[at(node)].op.microbatch, m_).residue;
  });
  return static_cast<std::int32_t>(covering - updates.begin());
}

void OpIndex::check_complete() const {
  const Placement& placement = schedule_.placement;
  std::vector<std::uint16_t> seen(placement.stages() * at(m_), 0);
  for (const ReplicaId replica : ids(placement.stage)) {
    std::uint16_t* of_stage = seen.data() + index(placement.stage[replica]) * at(m_);
    for (std::int32_t residue = 0; residue < m_; ++residue) {
      const bool is_there = forward(replica, residue) != kNone;
      const bool whole = is_there && !schedule_.forwards_alone;
      if (whole != (input_gradient(replica, residue) != kNone) ||
          whole != (weight_gradient(replica, residue) != kNone)) {
        reject(schedule_,
               "stage {} has only a part of microbatch {}: forward, input- and "
               "weight-gradient belong together",
               index(replica), residue);
      }
      if (is_there) ++of_stage[residue];
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != 1) {
      reject(schedule_, "stage {} processes microbatch {} {} times, expected once", i / at(m_),
             i % at(m_), seen[i]);
    }
  }
}

void OpIndex::check_evictions() const {
  if (evict.nodes.empty() && load.nodes.empty()) return;
  for (const ReplicaId replica : ids(schedule_.placement.stage)) {
    for (std::int32_t residue = 0; residue < m_; ++residue) {
      const bool evicted = evict(replica, residue) != kNone,
                 loaded = load(replica, residue) != kNone;
      if (!evicted && !loaded) continue;
      if (evicted != loaded || forward(replica, residue) == kNone) {
        reject(schedule_,
               "stage {} has only a part of the eviction of microbatch {}: "
               "forward, evict and load belong together",
               index(replica), residue);
      }
      if (recompute(replica, residue) == kNone) continue;
      reject(schedule_,
             "stage {} computes microbatch {} again before its backward: "
             "there is no stash to evict",
             index(replica), residue);
    }
  }
}

std::string describe(const Schedule& schedule, const Body& body, NodeId node) {
  const Op op = body.op(node);
  if (body.is_transfer(node)) {
    const Link& link = body.links[body.transfer(node).link];
    return fmt::format("{} {} from device {} to {}", name(op.kind), op.microbatch,
                       index(link.source), index(link.target));
  }
  return fmt::format("{} {} of stage {} (device {})", name(op.kind), op.microbatch,
                     index(op.replica), index(schedule.placement.device[op.replica]));
}

}  // namespace tandem::lowering
