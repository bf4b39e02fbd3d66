#include "core/program/program.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"

namespace tandem {

std::string_view name(LaneKind kind) {
  static constexpr std::string_view kNames[kLaneKinds] = {
      "compute",          "send_activation", "receive_activation", "send_gradient",
      "receive_gradient", "collective",      "send_stash",         "receive_stash"};
  return kNames[index(kind)];
}

LaneKind own_lane(OpKind kind) {
  if (!is_transfer(kind)) return is_collective(kind) ? LaneKind::collective : LaneKind::compute;
  if (moves_stash(kind)) return fetches(kind) ? LaneKind::receive_stash : LaneKind::send_stash;
  return traits(kind).flow == Flow::along_edges ? LaneKind::send_activation
                                                : LaneKind::send_gradient;
}

Program::Program(ProgramParts parts) : parts_(std::move(parts)) {
  TANDEM_CHECK(parts_.microbatches > 0, parts_.microbatches);
  TANDEM_CHECK(parts_.readings.empty() || parts_.readings.size() == parts_.placement.stages(),
               parts_.readings.size());
  for (const Reading& reading : parts_.readings) TANDEM_CHECK(reading.is_possible());
  // The extremes first: programs are large, and nearly all of them good.
  ReplicaId last_replica{};
  CostId last_cost{};
  std::uint64_t lane_end = 0, wait_end = 0;
  std::uint32_t furthest = 0;  // one below zero would be beyond all
  for (const Instruction& instruction : parts_.instructions) {
    last_replica = std::max(last_replica, instruction.op.replica);
    last_cost = std::max(last_cost, instruction.cost);
    lane_end = std::max(lane_end, std::uint64_t{instruction.first_lane} + instruction.lane_count);
    wait_end = std::max(wait_end, std::uint64_t{instruction.first_wait} + instruction.wait_count);
    furthest = std::max(furthest, static_cast<std::uint32_t>(instruction.op.microbatch));
  }
  TANDEM_CHECK(size() == 0 || index(last_replica) < parts_.placement.replicas(),
               index(last_replica));
  TANDEM_CHECK(size() == 0 || index(last_cost) < parts_.cost_keys.size(), index(last_cost));
  TANDEM_CHECK(lane_end <= parts_.lane_pool.size(), lane_end);
  TANDEM_CHECK(wait_end <= parts_.wait_pool.size(), wait_end);
  TANDEM_CHECK(std::in_range<std::int32_t>(furthest), furthest);
  ramp_ = static_cast<std::int32_t>(furthest) / parts_.microbatches;
  LaneId last_lane{};
  for (const LaneId lane : parts_.lane_pool) last_lane = std::max(last_lane, lane);
  TANDEM_CHECK(parts_.lane_pool.empty() || index(last_lane) < parts_.lanes.size());
  for (const Lane& lane : parts_.lanes) {
    TANDEM_CHECK(index(lane.device) < parts_.placement.devices);
    TANDEM_CHECK(index(lane.peer) < parts_.placement.devices);
  }
  Wait furthest_wait;
  for (const Wait& wait : parts_.wait_pool) {
    furthest_wait.producer = std::max(furthest_wait.producer, wait.producer);
    furthest_wait.lag = std::max(furthest_wait.lag, wait.lag);
  }
  TANDEM_CHECK(parts_.wait_pool.empty() || index(furthest_wait.producer) < size());
  depth_ = furthest_wait.lag + 1;
}

std::vector<InstructionId> Program::on(DeviceId device) const {
  std::vector<InstructionId> slice;
  for (const InstructionId id : order()) {
    for (const LaneId lane : lanes((*this)[id])) {
      if (parts_.lanes[lane].device != device) continue;
      slice.push_back(id);
      break;
    }
  }
  return slice;
}

std::vector<bool> awaited(const Program& program) {
  std::vector<bool> awaited(program.size(), false);
  for (const Wait& wait : program.parts().wait_pool) awaited[index(wait.producer)] = true;
  return awaited;
}

std::string describe(const Program& program, InstructionId id) {
  const Instruction& instruction = program[id];
  const Op& op = instruction.op;
  if (is_transfer(op.kind)) {
    const TransferEnds ends = ends_of(program.cost_keys()[instruction.cost]);
    return fmt::format("{} {}→{} #{}", name(op.kind), index(ends.from), index(ends.to),
                       op.microbatch);
  }
  const bool several = program.placement().replicas() > program.placement().devices;
  return fmt::format("{}{}{}", several ? std::to_string(index(op.replica)) : std::string(),
                     traits(op.kind).notation, op.microbatch);
}

}  // namespace tandem
