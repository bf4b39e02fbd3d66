#include <set>

#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

bool on_one(const Program& program, InstructionId id, const Lane& wanted) {
  const auto lanes = program.lanes(program[id]);
  return lanes.size() == 1 && program.lanes()[lanes[0]] == wanted;
}

Lane own_lane(DeviceId device, LaneKind kind) { return {device, kind, device}; }

void check_cost_key(const Facts& facts, InstructionId id, Report& report) {
  const Program& program = facts.program();
  const Op& op = program[id].op;
  const CostKey& key = program.cost_keys()[program[id].cost];
  const DeviceId device = facts.device(op.replica);
  const DeviceId target = !is_transfer(op.kind)  ? device
                          : moves_stash(op.kind) ? facts.placement().partner[device]
                                                 : key.target;
  const bool ends = key.source == device && key.target == target;
  const bool width =
      op.kind == OpKind::reduce_gradient ? key.width == facts.width() : key.width == 1;
  const bool span = key.span == (op.kind == OpKind::backward_weight ? op.span : 1);
  const bool overlapped = key.overlapped == facts.in_mixed_group(id);
  const bool same = key.kind == op.kind && key.replica == op.replica;
  const bool of_one = is_compute(op.kind) || is_transfer(op.kind);
  const bool slice = key.slice == (of_one ? program.slice_of(op) : 0);
  if (same && ends && width && span && overlapped && slice) return;
  report.add(ViolationKind::malformed, id,
             "{}: priced as {} of stage {} from device {} to {}, width {}{}{}{}",
             at_instruction(program, id), name(key.kind), index(key.replica), index(key.source),
             index(key.target), key.width, span ? "" : fmt::format(", span {}", key.span),
             overlapped       ? ""
             : key.overlapped ? ", overlapped"
                              : ", alone",
             slice ? "" : fmt::format(", slice {}", key.slice));
}

/// The first of the stage's own device.
std::array<Lane, 2> lanes_between(OpKind kind, DeviceId source, DeviceId target) {
  using enum LaneKind;
  const auto between = [&](LaneKind here, LaneKind there) {
    return std::array{Lane{source, here, target}, Lane{target, there, source}};
  };
  if (kind == OpKind::send_activation) return between(send_activation, receive_activation);
  if (kind == OpKind::send_gradient) return between(send_gradient, receive_gradient);
  return kind == OpKind::evict ? between(send_stash, receive_stash)
                               : between(receive_stash, send_stash);
}

void check_transfer(const Facts& facts, InstructionId id, Report& report) {
  const Program& program = facts.program();
  const Op& op = program[id].op;
  if (program[id].lane_count == 0) return;  // ideal: only time passes
  const DeviceId source = facts.device(op.replica);
  const DeviceId target = program.cost_keys()[program[id].cost].target;
  const std::array<Lane, 2> wanted = lanes_between(op.kind, source, target);
  const auto lanes = program.lanes(program[id]);
  if (lanes.size() == 2 && program.lanes()[lanes[0]] == wanted[0] &&
      program.lanes()[lanes[1]] == wanted[1]) {
    return;
  }
  report.add(
      ViolationKind::missing_transfer, id,
      "{} of {}: not on the {} lane of device {} and the {} lane of device {}, in this order",
      describe(program, id), at_replica(program, op.replica), name(wanted[0].kind), index(source),
      name(wanted[1].kind), index(target));
}

void check_collective(const Facts& facts, InstructionId id, Report& report) {
  const Program& program = facts.program();
  std::multiset<Lane> lanes;
  std::set<Lane> wanted;
  for (const LaneId lane : program.lanes(program[id])) lanes.insert(program.lanes()[lane]);
  for (const ReplicaId replica : facts.participants(id))
    wanted.insert(own_lane(facts.device(replica), LaneKind::collective));
  if (wanted.empty()) return;  // reported where participants are read
  if (std::ranges::equal(lanes, wanted)) return;
  report.add(ViolationKind::malformed, id,
             "{}: not on the collective lane of each participant's device, once each",
             at_instruction(program, id));
}

void check_own(const Facts& facts, InstructionId id, Report& report) {
  const Program& program = facts.program();
  const Op& op = program[id].op;
  const DeviceId device = facts.device(op.replica);
  if (on_one(program, id, own_lane(device, LaneKind::compute))) return;
  if (op.kind == OpKind::update && on_one(program, id, own_lane(device, LaneKind::collective))) {
    const std::int32_t covering = facts.update_covering(op.replica, facts.residue(id));
    if (covering >= 0) {
      const UpdateFact& update = facts.updates(op.replica)[static_cast<std::size_t>(covering)];
      for (const InstructionId sum :
           {update.reduce_gradient, update.reduce_tied, update.reduce_norm}) {
        if (exists(sum)) return;
      }
    }
  }
  report.add(ViolationKind::malformed, id, "{}: not on the compute lane of device {} alone",
             at_instruction(program, id), index(device));
}

}  // namespace

void check_lanes(const Facts& facts, Report& report) {
  const Program& program = facts.program();
  std::vector<Lane> lanes = program.lanes().rows();
  std::sort(lanes.begin(), lanes.end());
  if (const auto twice = std::adjacent_find(lanes.begin(), lanes.end()); twice != lanes.end()) {
    report.add(ViolationKind::malformed, InstructionId{}, "two {} lanes of device {} to device {}",
               name(twice->kind), index(twice->device), index(twice->peer));
  }
  for (const InstructionId id : program.order()) {
    check_cost_key(facts, id, report);
    const OpKind kind = program[id].op.kind;
    if (is_transfer(kind)) {
      check_transfer(facts, id, report);
    } else if (is_collective(kind)) {
      check_collective(facts, id, report);
    } else {
      check_own(facts, id, report);
    }
  }
}

}  // namespace tandem::verification
