#include "core/verify/report.h"

namespace tandem::verification {

std::string batches(std::int64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "batch" : "batches");
}

std::string at_replica(const Program& program, ReplicaId replica) {
  return fmt::format("stage {} (device {})", index(replica),
                     index(program.placement().device[replica]));
}

std::string at_instruction(const Program& program, InstructionId id) {
  const Op& op = program[id].op;
  if (is_transfer(op.kind)) return describe(program, id);
  return fmt::format("{} (stage {}, microbatch {}, device {})", describe(program, id),
                     tandem::index(op.replica), op.microbatch % program.microbatches(),
                     tandem::index(program.placement().device[op.replica]));
}

}  // namespace tandem::verification
