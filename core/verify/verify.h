#pragma once
// verify(): an independent re-derivation of everything a program must satisfy. Shares no code with
// lower(). For whoever makes programs or schedules of their own: what verify() has nothing against
// runs without deadlock on any machine and trains by the weights that its schedule says.

#include <cstdint>
#include <string>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"

namespace tandem {

/// Ways in which a program can be wrong.
enum class ViolationKind : std::uint8_t {
  missing_op,        // a microbatch lacks an op on a stage
  duplicate_op,      // or has it twice
  missing_transfer,  // an edge between devices lacks its transfer, or it runs on the wrong lanes
  missing_wait,      // an instruction may start before what it needs has ended
  wrong_version,  // forward, recomputation and backward disagree, or the version does not exist yet
  version_overwritten,  // an update may write a weight slot that is still read
  slot_overwritten,     // a buffer slot may be reused before its last reader has ended
  deadlock,             // a cycle of waits; the message names it
  malformed,            // lanes, devices or offsets that no machine could run
};
/// In words: "missing op", "deadlock".
std::string_view name(ViolationKind kind);

/// One thing wrong with a program.
struct Violation {
  ViolationKind kind;
  InstructionId instruction{};  // the culprit, or the nearest to it
  std::string message;          // names stage, microbatch and device
};

/// All that is wrong; a wrong program is a result, not an error. Empty: it is right for a run of
/// any length, with slots as many as `slots` says.
std::vector<Violation> verify(const Program& program, const SlotCounts& slots);
/// The same with the slots that count_slots() finds, once nothing else is wrong.
std::vector<Violation> verify(const Program& program);

}  // namespace tandem
