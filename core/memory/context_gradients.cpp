// How many slots the gradients of keys and values take, where sequences are sliced.

#include <algorithm>
#include <map>

#include "core/memory/held_changes.h"
#include "core/memory/slot_knowledge.h"

namespace tandem {

Table<ReplicaId, std::int32_t> context_gradients(const Program& program) {
  /// Of a stage: which uses of the ring have begun and not ended, by their microbatches.
  struct Uses {
    std::map<std::int32_t, std::int32_t> open{};
    std::int32_t begun = 0;
  };
  Table<ReplicaId, Uses> uses(program.placement().replicas());
  Table<ReplicaId, std::int32_t> counts(uses.size(), 0);
  if (program.slices() == 1) return counts;
  for_each_until_steady(program, [&](const Op& op) {
    if (!makes_input_gradient(op.kind)) return;
    const std::int32_t slice = program.slice_of(op);
    const std::int32_t microbatch = op.microbatch % program.microbatches() - slice;
    Uses& of = uses[op.replica];
    if (slice == program.slices() - 1) {
      of.open[microbatch] = of.begun++;
      std::int32_t oldest = of.begun;
      for (const auto& [whose, use] : of.open) oldest = std::min(oldest, use);
      counts[op.replica] = std::max(counts[op.replica], of.begun - oldest);
    }
    if (slice == 0) of.open.erase(microbatch);
  });
  return counts;
}

}  // namespace tandem
