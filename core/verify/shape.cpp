#include "core/verify/checkers.h"

namespace tandem::verification {

namespace {

bool placement_holds(const Placement& placement) {
  const std::size_t replicas = placement.replicas(), stages = placement.stages();
  if (placement.stage.size() != replicas) return false;
  for (const DeviceId device : placement.device) {
    if (index(device) >= placement.devices) return false;
  }
  for (const Placement::Edge& edge : placement.edges) {
    if (index(edge.from) >= replicas || index(edge.to) >= replicas) return false;
  }
  for (const DeviceId partner : placement.partner) {
    if (placement.partner.size() != placement.devices || index(partner) >= placement.devices)
      return false;
  }
  for (const auto& group : placement.tied) {
    const auto unknown = [&](StageId stage) {
      return index(stage) >= stages || placement.replicas_of(stage).empty();
    };
    if (std::any_of(group.begin(), group.end(), unknown)) return false;
  }
  return true;
}

/// Tables far larger than the program would only say at length that nearly everything is missing.
bool is_hopeless(const Program& program) {
  constexpr std::size_t kSmallTables = std::size_t{1} << 22;
  const auto m = static_cast<std::size_t>(program.microbatches());
  return program.placement().stages() * m > std::max(program.size(), kSmallTables);
}

}  // namespace

bool check_sizes(const Program& program, const SlotCounts& slots, Report& report) {
  if (slots.size() == program.placement().replicas()) return true;
  report.add(ViolationKind::malformed, InstructionId{},
             "slots are counted for {} stages, but there are {}", slots.size(),
             program.placement().replicas());
  return false;
}

bool check_shape(const Program& program, Report& report) {
  if (!placement_holds(program.placement())) {
    report.add(ViolationKind::malformed, InstructionId{},
               "the placement names replicas, stages or devices that it does not have");
    return false;
  }
  if (is_hopeless(program)) {
    report.add(ViolationKind::missing_op, InstructionId{},
               "{} stages and {} microbatches need a forward and a backward each, but the program "
               "has only {} instructions",
               program.placement().stages(), program.microbatches(), program.size());
    return false;
  }
  for (const InstructionId id : program.order()) {
    const Op& op = program[id].op;
    if (moves_stash(op.kind)) {
      const auto& partner = program.placement().partner;
      const DeviceId device = program.placement().device[op.replica];
      if (!partner.empty() && partner[device] != device) continue;
      report.add(ViolationKind::malformed, id, "{}: device {} has no partner",
                 describe(program, id), index(device));
    }
    if (op.span == 1) continue;
    const std::int32_t residue = op.microbatch % program.microbatches();
    if (op.span >= 1 && op.span <= residue + 1) continue;
    report.add(ViolationKind::malformed, id,
               "{}: a span of {} microbatches that end with microbatch {} crosses a batch boundary",
               at_instruction(program, id), op.span, residue);
  }
  return report.empty();
}

}  // namespace tandem::verification
