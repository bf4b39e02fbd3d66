#include "core/program.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"

namespace tandem {

std::string_view name(LaneKind kind) {
  static constexpr std::string_view kNames[kLaneKinds] = {
      "compute",       "send_activation",  "receive_activation",
      "send_gradient", "receive_gradient", "collective"};
  return kNames[index(kind)];
}

Program::Program(ProgramParts parts) : parts_(std::move(parts)) {
  TANDEM_CHECK(parts_.microbatches > 0, parts_.microbatches);
  std::int32_t furthest = 0;
  for (const Instruction& instruction : parts_.instructions) {
    TANDEM_CHECK(index(instruction.op.stage) < parts_.placement.stages());
    TANDEM_CHECK(index(instruction.cost) < parts_.cost_keys.size());
    TANDEM_CHECK(instruction.first_lane + instruction.lane_count <= parts_.lane_pool.size());
    TANDEM_CHECK(instruction.first_wait + instruction.wait_count <= parts_.wait_pool.size());
    TANDEM_CHECK(instruction.op.microbatch >= 0, instruction.op.microbatch);
    furthest = std::max(furthest, instruction.op.microbatch);
  }
  ramp_ = furthest / parts_.microbatches;
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
  awaited_.assign(size(), false);
  for (const Wait& wait : parts_.wait_pool) awaited_[index(wait.producer)] = true;
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

std::string describe(const Program& program, InstructionId id) {
  const Instruction& instruction = program[id];
  const Op& op = instruction.op;
  if (is_transfer(op.kind)) {
    const CostKey& key = program.cost_keys()[instruction.cost];
    return fmt::format("{} {}→{} #{}", name(op.kind), index(key.source), index(key.target),
                       op.microbatch);
  }
  const bool several = program.placement().stages() > program.placement().devices;
  return fmt::format("{}{}{}", several ? std::to_string(index(op.stage)) : std::string(),
                     traits(op.kind).notation, op.microbatch);
}

}  // namespace tandem
