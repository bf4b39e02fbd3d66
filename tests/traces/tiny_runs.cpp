#include "tests/traces/tiny_runs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/check.h"
#include "core/program/run.h"
#include "core/program/versions.h"

namespace tandem::testing {
namespace {

/// Emits ops in an order in which every producer of the same body comes first.
class Builder {
 public:
  Builder(std::string name, std::int32_t microbatches, Placement placement) {
    parts_.schedule = std::move(name);
    parts_.microbatches = microbatches;
    parts_.placement = std::move(placement);
  }

  Program build(const std::vector<std::vector<Op>>& order) {
    for (const auto& ops : order) {
      for (const Op& op : ops) offsets_[key(op.kind, op.replica, op.microbatch)] = op.microbatch;
    }
    std::vector<std::size_t> next(order.size(), 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t device = 0; device < order.size(); ++device) {
        if (next[device] == order[device].size() || !ready(order[device][next[device]])) continue;
        emit(order[device][next[device]++]);
        progress = true;
      }
    }
    for (std::size_t device = 0; device < order.size(); ++device) {
      TANDEM_CHECK(next[device] == order[device].size(), device, next[device]);
    }
    link();
    return Program(std::move(parts_));
  }

 private:
  using Key = std::tuple<OpKind, ReplicaId, std::int32_t>;

  Key key(OpKind kind, ReplicaId replica, std::int32_t microbatch) const {
    if (kind == OpKind::backward_input) kind = OpKind::backward;
    return {kind, replica, microbatch % parts_.microbatches};
  }

  /// What `op` needs: (kind, stage) of its producers.
  std::vector<std::pair<OpKind, ReplicaId>> needs(const Op& op) const {
    std::vector<std::pair<OpKind, ReplicaId>> result;
    const bool forward = op.kind == OpKind::forward;
    if (!forward && !makes_input_gradient(op.kind)) return result;
    for (const auto& edge : parts_.placement.edges) {
      if (forward && edge.to == op.replica) result.emplace_back(OpKind::forward, edge.from);
      if (!forward && edge.from == op.replica) result.emplace_back(OpKind::backward, edge.to);
    }
    return result;
  }

  bool ready(const Op& op) const {
    for (const auto& [kind, replica] : needs(op)) {
      const Key producer = key(kind, replica, op.microbatch);
      if (offsets_.at(producer) <= op.microbatch && !made_.contains(producer)) return false;
    }
    return true;
  }

  void emit(const Op& op) {
    const DeviceId device = parts_.placement.device[op.replica];
    const InstructionId id = push(op, {lane({device, LaneKind::compute, device})});
    if (op.kind == OpKind::update || op.kind == OpKind::recompute) return;
    if (op.kind == OpKind::backward_weight) return;
    made_[key(op.kind, op.replica, op.microbatch)] = id;
    const bool forward = op.kind == OpKind::forward;
    for (const auto& edge : parts_.placement.edges) {
      const ReplicaId mine = forward ? edge.from : edge.to;
      const ReplicaId other = forward ? edge.to : edge.from;
      if (mine == op.replica) send(op, device, parts_.placement.device[other], other);
    }
  }

  void send(const Op& op, DeviceId from, DeviceId to, ReplicaId other) {
    if (from == to) return;
    const bool forward = op.kind == OpKind::forward;
    Op transfer{.kind = forward ? OpKind::send_activation : OpKind::send_gradient,
                .replica = op.replica,
                .microbatch = op.microbatch};
    const auto out = forward ? LaneKind::send_activation : LaneKind::send_gradient;
    const auto in = forward ? LaneKind::receive_activation : LaneKind::receive_gradient;
    const InstructionId id = push(transfer, {lane({from, out, to}), lane({to, in, from})});
    sent_[{key(op.kind, op.replica, op.microbatch), other}] = id;
  }

  InstructionId push(const Op& op, const std::vector<LaneId>& lanes) {
    Instruction instruction{.op = op};
    instruction.first_lane = static_cast<std::uint32_t>(parts_.lane_pool.size());
    instruction.lane_count = static_cast<std::uint16_t>(lanes.size());
    parts_.lane_pool.insert(parts_.lane_pool.end(), lanes.begin(), lanes.end());
    const CostKey price{.kind = op.kind,
                        .replica = op.replica,
                        .source = parts_.lanes[lanes.front()].device,
                        .target = parts_.lanes[lanes.back()].device};
    const auto& keys = parts_.cost_keys.rows();
    const auto found = std::find(keys.begin(), keys.end(), price);
    instruction.cost = found == keys.end() ? parts_.cost_keys.push_back(price)
                                           : id_at<CostId>(std::size_t(found - keys.begin()));
    parts_.instructions.push_back(instruction);
    return id_at<InstructionId>(parts_.instructions.size() - 1);
  }

  LaneId lane(const Lane& lane) {
    const auto& lanes = parts_.lanes.rows();
    const auto found = std::find(lanes.begin(), lanes.end(), lane);
    if (found == lanes.end()) return parts_.lanes.push_back(lane);
    return id_at<LaneId>(static_cast<std::size_t>(found - lanes.begin()));
  }

  void link() {
    for (Instruction& instruction : parts_.instructions) {
      instruction.first_wait = static_cast<std::uint32_t>(parts_.wait_pool.size());
      if (is_transfer(instruction.op.kind)) {
        const bool forward = instruction.op.kind == OpKind::send_activation;
        const OpKind made = forward ? OpKind::forward : OpKind::backward;
        wait(instruction, made_.at(key(made, instruction.op.replica, instruction.op.microbatch)));
      }
      for (const auto& [kind, replica] : needs(instruction.op)) {
        const Key producer = key(kind, replica, instruction.op.microbatch);
        const auto sent = sent_.find({producer, instruction.op.replica});
        wait(instruction, sent != sent_.end() ? sent->second : made_.at(producer));
      }
    }
  }

  void wait(Instruction& instruction, InstructionId producer) {
    const std::int32_t ahead =
        parts_.instructions[index(producer)].op.microbatch - instruction.op.microbatch;
    parts_.wait_pool.push_back({producer, static_cast<std::uint32_t>(ahead / parts_.microbatches)});
    ++instruction.wait_count;
  }

  ProgramParts parts_;
  std::map<Key, std::int32_t> offsets_;
  std::map<Key, InstructionId> made_;
  std::map<std::pair<Key, ReplicaId>, InstructionId> sent_;
};

Op update_of(ReplicaId replica, std::int32_t microbatches) {
  return {.kind = OpKind::update,
          .replica = replica,
          .microbatch = microbatches - 1,
          .span = static_cast<std::uint16_t>(microbatches)};
}

/// Records spans; knows when each lane is free and each instance ended.
class Recorder {
 public:
  Recorder(const Program& program, const OpCost& cost)
      : cost_(cost), free_(program.lanes().size()) {}

  void issue(const Program& program, Instance instance) {
    const Instruction& instruction = program[instance.id];
    Duration start{};
    for (const LaneId lane : program.lanes(instruction)) start = std::max(start, free_[lane]);
    for (const Wait& wait : program.waits(instruction)) {
      const auto ended = ended_.find({wait.producer, instance.body - wait.lag});
      if (ended != ended_.end()) start = std::max(start, ended->second);
    }
    const Duration end = start + cost_(instruction.op);
    for (const LaneId lane : program.lanes(instruction)) free_[lane] = end;
    ended_[{instance.id, instance.body}] = end;
    timeline.spans.push_back({instance.id, instance.body, start, end});
  }

  Timeline timeline;

 private:
  OpCost cost_;
  Table<LaneId, Duration> free_;
  std::map<std::pair<InstructionId, std::int64_t>, Duration> ended_;
};

}  // namespace

Program tiny_program(std::string name, std::int32_t microbatches, Placement placement,
                     const std::vector<std::vector<Op>>& order) {
  return Builder(std::move(name), microbatches, std::move(placement)).build(order);
}

Program tiny_1f1b(std::uint16_t devices, std::int32_t microbatches) {
  std::vector<std::vector<Op>> order(devices);
  for (std::uint16_t device = 0; device < devices; ++device) {
    const auto replica = id_at<ReplicaId>(device);
    const std::int32_t warm = std::min<std::int32_t>(devices - 1 - device, microbatches);
    for (std::int32_t i = 0; i < warm; ++i) {
      order[device].push_back({.kind = OpKind::forward, .replica = replica, .microbatch = i});
    }
    for (std::int32_t i = 0; i < microbatches; ++i) {
      if (i + warm < microbatches) {
        order[device].push_back(
            {.kind = OpKind::forward, .replica = replica, .microbatch = i + warm});
      }
      order[device].push_back({.kind = OpKind::backward, .replica = replica, .microbatch = i});
    }
    order[device].push_back(update_of(replica, microbatches));
  }
  return tiny_program("1f1b", microbatches, linear_placement(devices), order);
}

Program tiny_2bw(std::uint16_t devices, std::int32_t microbatches) {
  std::vector<std::vector<Op>> order(devices);
  for (std::uint16_t device = 0; device < devices; ++device) {
    const auto replica = id_at<ReplicaId>(device);
    for (std::int32_t i = 0; i < microbatches; ++i) {
      order[device].push_back({.kind = OpKind::forward,
                               .replica = replica,
                               .microbatch = i + devices - 1 - device,
                               .staleness = 1});
      order[device].push_back(
          {.kind = OpKind::backward, .replica = replica, .microbatch = i, .staleness = 1});
    }
    order[device].push_back(update_of(replica, microbatches));
  }
  return tiny_program("2bw", microbatches, linear_placement(devices), order);
}

Timeline tiny_timeline(const Program& program, std::int64_t batches, const OpCost& cost) {
  Recorder recorder(program, cost);
  run(program, program.order(), batches, recorder);
  return recorder.timeline;
}

Duration TinyCosts::operator()(const Op& op) const {
  if (is_collective(op.kind) || settles_step(op.kind)) return Duration::zero();
  if (is_transfer(op.kind)) return transfer;
  if (makes_version(op.kind)) return update;
  if (makes_input_gradient(op.kind)) return backward;
  return makes_weight_gradient(op.kind) ? backward_weight : forward;
}

TimelineRecords records_of(const Program& program, const Timeline& timeline) {
  const WeightVersions version_of(program);
  TimelineRecords records;
  records.reserve(timeline.spans.size());
  for (const Span& span : timeline.spans) {
    TANDEM_CHECK(index(span.instruction) < program.size(), index(span.instruction));
    const Instruction& instruction = program[span.instruction];
    const std::int64_t m = program.microbatches();
    TimelineRecord record{.clock = timeline.clock,
                          .kind = instruction.op.kind,
                          .replica = instruction.op.replica,
                          .microbatch = span.body * m + instruction.op.microbatch,
                          .body = span.body,
                          .instruction = span.instruction,
                          .start = span.start,
                          .end = span.end};
    record.batch = record.microbatch / m - (record.microbatch % m < 0 ? 1 : 0);
    record.weight_version = version_of({span.instruction, span.body, record.microbatch});
    for (const LaneId id : program.lanes(instruction)) {
      const Lane& lane = program.lanes()[id];
      record.device = lane.device;
      record.lane = lane.kind;
      record.peer = lane.peer;
      records.push_back(record);
    }
    if (instruction.lane_count > 0) continue;
    const CostKey& price = program.cost_keys()[instruction.cost];
    record.device = price.source;
    record.lane = own_lane(record.kind);
    record.peer = price.target;
    records.push_back(record);
  }
  return records;
}

}  // namespace tandem::testing
