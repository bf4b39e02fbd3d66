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

namespace {

void check_parts(const ProgramParts& parts) {
  TANDEM_CHECK(parts.microbatches > 0, parts.microbatches);
  for (const Instruction& instruction : parts.instructions) {
    TANDEM_CHECK(index(instruction.op.stage) < parts.placement.stages());
    TANDEM_CHECK(index(instruction.cost) < parts.cost_keys.size());
    TANDEM_CHECK(instruction.first_lane + instruction.lane_count <= parts.lane_pool.size());
    TANDEM_CHECK(instruction.first_wait + instruction.wait_count <= parts.wait_pool.size());
    TANDEM_CHECK(instruction.op.microbatch >= 0, instruction.op.microbatch);
  }
  for (const LaneId lane : parts.lane_pool) TANDEM_CHECK(index(lane) < parts.lanes.size());
  for (const Lane& lane : parts.lanes) {
    TANDEM_CHECK(index(lane.device) < parts.placement.devices);
    TANDEM_CHECK(index(lane.peer) < parts.placement.devices);
  }
  for (const Wait& wait : parts.wait_pool) {
    TANDEM_CHECK(index(wait.producer) < parts.instructions.size());
  }
}

}  // namespace

Program::Program(ProgramParts parts) : parts_(std::move(parts)) {
  check_parts(parts_);
  order_.resize(size());
  std::size_t next = 0;
  for (InstructionId& id : order_) id = id_at<InstructionId>(next++);
  awaited_.assign(size(), false);
  for (const Wait& wait : parts_.wait_pool) {
    awaited_[index(wait.producer)] = true;
    depth_ = std::max(depth_, wait.lag + 1);
  }
  std::int32_t furthest = 0;
  for (const Instruction& instruction : parts_.instructions) {
    furthest = std::max(furthest, instruction.op.microbatch);
  }
  ramp_ = furthest / parts_.microbatches;
  slices_.resize(parts_.placement.devices);
  Table<DeviceId, std::size_t> most(parts_.placement.devices, 0);
  for (const LaneId lane : parts_.lane_pool) ++most[parts_.lanes[lane].device];
  for (const DeviceId device : ids(slices_)) slices_[device].reserve(most[device]);
  for (const InstructionId id : order_) {
    for (const LaneId lane : lanes((*this)[id])) {
      std::vector<InstructionId>& slice = slices_[parts_.lanes[lane].device];
      if (slice.empty() || slice.back() != id) slice.push_back(id);
    }
  }
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
