#include "core/verify/report.h"

namespace tandem::verification {

std::string batches(std::int64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "batch" : "batches");
}

std::string at_stage(const Program& program, StageId stage) {
  return fmt::format("stage {} (device {})", index(stage),
                     index(program.placement().device[stage]));
}

std::string at_instruction(const Program& program, InstructionId id) {
  const Op& op = program[id].op;
  if (is_transfer(op.kind)) return describe(program, id);
  return fmt::format("{} (stage {}, microbatch {}, device {})", describe(program, id),
                     tandem::index(op.stage), op.microbatch % program.microbatches(),
                     tandem::index(program.placement().device[op.stage]));
}

}  // namespace tandem::verification
