#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/lowering.h"

namespace tandem::lowering {

namespace {

[[noreturn]] void reject(const Schedule& schedule, const std::string& reason) {
  throw InputError(fmt::format("schedule \"{}\": {}", schedule.name, reason));
}

std::vector<StageId> participants(const Placement& placement, const Op& op) {
  const PartId part = placement.part[op.stage];
  if (op.kind == OpKind::reduce_gradient) return placement.replicas_of(part);
  std::vector<StageId> stages;
  if (op.kind == OpKind::reduce_norm) {
    for (const StageId stage : ids(placement.part)) stages.push_back(stage);
    return stages;
  }
  for (const PartId tied : placement.tied_with(part)) {
    for (const StageId stage : placement.replicas_of(tied)) stages.push_back(stage);
  }
  std::sort(stages.begin(), stages.end());
  return stages;
}

void check_op(const Schedule& schedule, DeviceId device, const Op& op) {
  if (index(op.stage) >= schedule.placement.stages()) {
    reject(schedule, fmt::format("device {} runs an op of stage {}, which does not exist",
                                 index(device), index(op.stage)));
  }
  if (schedule.placement.device[op.stage] != device) {
    reject(schedule,
           fmt::format("device {} runs an op of stage {}, which is on device {}", index(device),
                       index(op.stage), index(schedule.placement.device[op.stage])));
  }
  const std::int32_t place = op.microbatch % schedule.microbatches;
  if (op.microbatch < 0 || op.span < 1 || op.span > place + 1) {
    reject(schedule,
           fmt::format("{} of stage {} has microbatch offset {} and span {}: a span must stay "
                       "inside one batch",
                       name(op.kind), index(op.stage), op.microbatch, op.span));
  }
}

}  // namespace

std::vector<Node> nodes_of(const Schedule& schedule) {
  std::vector<Node> nodes;
  std::map<std::tuple<OpKind, StageId, std::int32_t>, std::int32_t> together;
  for (const DeviceId device : ids(schedule.order)) {
    std::int32_t before = kNone;
    for (const Op& op : schedule.order[device]) {
      check_op(schedule, device, op);
      if (!is_collective(op.kind)) {
        Node node;
        node.op = op;
        node.devices = {device};
        node.before = before;
        before = static_cast<std::int32_t>(nodes.size());
        nodes.push_back(std::move(node));
        continue;
      }
      std::vector<StageId> stages = participants(schedule.placement, op);
      if (stages.empty()) reject(schedule, "a tied sum needs tied parts");
      const auto key = std::tuple(op.kind, stages.front(), op.microbatch % schedule.microbatches);
      if (!together.try_emplace(key, static_cast<std::int32_t>(nodes.size())).second) continue;
      Node node;
      node.op = op;
      node.op.stage = stages.front();
      for (const StageId stage : stages) node.devices.push_back(schedule.placement.device[stage]);
      std::sort(node.devices.begin(), node.devices.end());
      node.devices.erase(std::unique(node.devices.begin(), node.devices.end()), node.devices.end());
      node.stages = std::move(stages);
      nodes.push_back(std::move(node));
    }
  }
  return nodes;
}

OpIndex::OpIndex(const Schedule& schedule, const std::vector<Node>& nodes)
    : schedule_(schedule), m_(schedule.microbatches), updates_(schedule.placement.stages()) {
  const std::size_t cells = schedule.placement.stages() * static_cast<std::size_t>(m_);
  for (auto* table : {&forward_, &recompute_, &input_gradient_, &weight_gradient_, &tied_,
                      &reduced_, &norm_, &covering_}) {
    table->assign(cells, kNone);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Op& op = nodes[i].op;
    const auto node = static_cast<std::int32_t>(i);
    if (op.kind == OpKind::forward) record(forward_, op, node);
    if (op.kind == OpKind::recompute) record(recompute_, op, node);
    if (makes_input_gradient(op.kind)) record(input_gradient_, op, node);
    if (makes_weight_gradient(op.kind)) record(weight_gradient_, op, node);
    if (op.kind == OpKind::update) updates_[op.stage].push_back(node);
    for (const StageId stage : nodes[i].stages) {
      auto& table = op.kind == OpKind::reduce_tied   ? tied_
                    : op.kind == OpKind::reduce_norm ? norm_
                                                     : reduced_;
      table[at(stage, op.microbatch % m_)] = node;
    }
  }
  record_updates(nodes);
  check_complete();
}

void OpIndex::record(std::vector<std::int32_t>& table, const Op& op, std::int32_t node) {
  for (std::int32_t i = 0; i < op.span; ++i) {
    std::int32_t& cell = table[at(op.stage, (op.microbatch - i) % m_)];
    if (cell != kNone) {
      reject(schedule_, fmt::format("stage {} has {} of microbatch {} twice", index(op.stage),
                                    name(op.kind), (op.microbatch - i) % m_));
    }
    cell = node;
  }
}

void OpIndex::record_updates(const std::vector<Node>& nodes) {
  for (const StageId stage : ids(updates_)) {
    std::vector<std::int32_t>& updates = updates_[stage];
    const auto residue = [&](std::int32_t node) {
      return nodes[static_cast<std::size_t>(node)].op.microbatch % m_;
    };
    std::sort(updates.begin(), updates.end(),
              [&](std::int32_t a, std::int32_t b) { return residue(a) < residue(b); });
    std::int32_t covered = 0;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const Op& op = nodes[static_cast<std::size_t>(updates[i])].op;
      const std::int32_t last = op.microbatch % m_;
      if (last - op.span + 1 != covered) {
        reject(schedule_,
               fmt::format("the updates of stage {} do not cover microbatch {} exactly once",
                           index(stage), covered));
      }
      for (; covered <= last; ++covered)
        covering_[at(stage, covered)] = static_cast<std::int32_t>(i);
    }
    if (covered != m_) {
      reject(schedule_,
             fmt::format("no update of stage {} covers microbatch {}", index(stage), covered));
    }
  }
}

void OpIndex::check_complete() const {
  const Placement& placement = schedule_.placement;
  std::vector<std::int32_t> seen(placement.parts() * static_cast<std::size_t>(m_), 0);
  for (const StageId stage : ids(placement.part)) {
    for (std::int32_t residue = 0; residue < m_; ++residue) {
      const bool forward = forward_[at(stage, residue)] != kNone;
      if (forward != (input_gradient_[at(stage, residue)] != kNone) ||
          forward != (weight_gradient_[at(stage, residue)] != kNone)) {
        reject(schedule_,
               fmt::format("stage {} has only a part of microbatch {}: forward, input- and "
                           "weight-gradient belong together",
                           index(stage), residue));
      }
      if (forward) {
        ++seen[index(placement.part[stage]) * static_cast<std::size_t>(m_) +
               static_cast<std::size_t>(residue)];
      }
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != 1) {
      reject(schedule_, fmt::format("part {} processes microbatch {} {} times, expected once",
                                    i / static_cast<std::size_t>(m_),
                                    i % static_cast<std::size_t>(m_), seen[i]));
    }
  }
}

std::string describe(const Schedule& schedule, const Node& node) {
  if (is_transfer(node.op.kind)) {
    return fmt::format("{} {} from device {} to {}", name(node.op.kind), node.op.microbatch,
                       index(node.devices[0]), index(node.devices[1]));
  }
  return fmt::format("{} {} of stage {} (device {})", name(node.op.kind), node.op.microbatch,
                     index(node.op.stage), index(schedule.placement.device[node.op.stage]));
}

}  // namespace tandem::lowering
