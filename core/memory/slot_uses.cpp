#include "core/memory/slot_uses.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace tandem::slots {

SlotUses::SlotUses(const Program& program)
    : program_(program),
      m_(program.microbatches()),
      sequence_(program),
      below_(program.placement().replicas()),
      above_(program.placement().replicas()) {
  for (const Placement::Edge& edge : program.placement().edges) {
    below_[edge.from].push_back(edge.to);
    above_[edge.to].push_back(edge.from);
  }
  index_program();
  mark_first_gradients();
}

void SlotUses::index_program() {
  const std::size_t replicas = program_.placement().replicas();
  const std::size_t cells = replicas * static_cast<std::size_t>(m_);
  for (auto* table : {&forward_, &input_gradient_, &weight_gradient_}) table->resize(cells);
  lane_length_.resize(program_.lanes().size());
  place_.assign(program_.size(), 0);
  updates_.resize(replicas);
  for (const InstructionId id : program_.order()) {
    const Instruction& instruction = program_[id];
    const Op& op = instruction.op;
    if (instruction.lane_count == 0 || is_transfer(op.kind)) continue;
    const LaneId lane = program_.lanes(instruction).front();
    place_[index(id)] = lane_length_[lane];
    for (const LaneId each : program_.lanes(instruction)) ++lane_length_[each];
    const Turn last = turn(0, op.microbatch);
    const Release here{lane, true, static_cast<std::int32_t>(last.batch), place_[index(id)]};
    if (op.kind == OpKind::update) updates_[op.replica].push_back({last.residue, here});
    if (op.kind == OpKind::validate && !updates_[op.replica].empty())
      updates_[op.replica].back().release = here;  // may need the gradients once more
    for (std::int32_t i = 0; is_compute(op.kind) && i < op.span; ++i) {
      const std::size_t cell = at(op.replica, last.residue - i);
      if (op.kind == OpKind::forward) forward_[cell] = here;
      if (makes_input_gradient(op.kind)) input_gradient_[cell] = here;
      if (makes_weight_gradient(op.kind)) weight_gradient_[cell] = here;
    }
  }
  for (auto& updates : updates_) std::ranges::sort(updates, {}, &CoveringUpdate::residue);
}

void SlotUses::mark_first_gradients() {
  first_gradient_.assign(program_.size(), false);
  Table<ReplicaId, std::vector<std::int64_t>> last_started(updates_.size());
  for (const ReplicaId replica : ids(updates_))
    last_started[replica].assign(updates_[replica].size(), -1);
  for (const InstructionId id : program_.order()) {
    const Op& op = program_[id].op;
    if (!makes_weight_gradient(op.kind)) continue;
    const std::size_t update = update_of(op.replica, turn(0, op.microbatch).residue);
    if (std::exchange(last_started[op.replica][update], 1) < 0) first_gradient_[index(id)] = true;
  }
}

std::size_t SlotUses::update_of(ReplicaId replica, std::int32_t residue) const {
  const std::vector<CoveringUpdate>& updates = updates_[replica];
  const auto covering = std::ranges::lower_bound(updates, residue, {}, &CoveringUpdate::residue);
  return static_cast<std::size_t>(covering - updates.begin());
}

ReplicaId SlotUses::receiver(InstructionId transfer, std::int32_t residue) const {
  const Instruction& instruction = program_[transfer];
  const DeviceId target = program_.cost_keys()[instruction.cost].target;
  for (const ReplicaId replica : below_[instruction.op.replica]) {
    if (program_.placement().device[replica] == target && processes(replica, residue))
      return replica;
  }
  TANDEM_CHECK(false, index(target), residue);
  return ReplicaId{};
}

SlotKind SlotUses::slot_read_by(const Op& op) const {
  const Reading reading = program_.reading(op.replica);
  if (makes_input_gradient(op.kind) && !reading.reads_alike())
    return reading.has_backward_plane() ? SlotKind::backward_weights : SlotKind::weights;
  return reading.predicts_forward() ? SlotKind::forward_weights : SlotKind::weights;
}

}  // namespace tandem::slots
