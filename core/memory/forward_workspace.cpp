// Which stages' forwards can't borrow a stash slot.

#include <algorithm>
#include <compare>
#include <optional>

#include "core/memory/slot_knowledge.h"

namespace tandem {

namespace {

/// Where a microbatch of batch 0 is worked on: all ops of a stage are on one lane.
struct Place {
  std::int64_t body = 0;
  std::size_t at = 0;  // in the body's order
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct StageOps {
  std::vector<std::size_t> forwards;                                 // ascending
  std::vector<std::optional<Place>> recomputations, last_gradients;  // of each residue
};

/// Whether any body has a forward between the two.
bool runs_between(const std::vector<std::size_t>& forwards, Place first, Place last) {
  if (forwards.empty() || last < first) return false;
  const auto after = std::ranges::upper_bound(forwards, first.at);
  if (first.body == last.body) return after != forwards.end() && *after < last.at;
  return after != forwards.end() || forwards.front() < last.at || first.body + 1 < last.body;
}

}  // namespace

std::vector<ReplicaId> forwards_in_workspace(const Program& program) {
  const bool recomputes = std::ranges::any_of(
      program.cost_keys(), [](const CostKey& key) { return key.kind == OpKind::recompute; });
  if (!recomputes) return {};
  const std::int32_t m = program.microbatches();
  Table<ReplicaId, StageOps> ops(program.placement().replicas());
  for (StageOps& of : ops) {
    of.recomputations.resize(static_cast<std::size_t>(m));
    of.last_gradients.resize(static_cast<std::size_t>(m));
  }
  for (const InstructionId id : program.order()) {
    const Op& op = program[id].op;
    StageOps& of = ops[op.replica];
    const Place place{-op.microbatch / m, index(id)};
    if (op.kind == OpKind::forward) of.forwards.push_back(place.at);
    for (std::int32_t k = op.microbatch - op.span + 1; k <= op.microbatch; ++k) {
      const auto residue = static_cast<std::size_t>(k % m);
      if (op.kind == OpKind::recompute) of.recomputations[residue] = place;
      if (makes_weight_gradient(op.kind)) of.last_gradients[residue] = place;
    }
  }
  std::vector<ReplicaId> replicas;
  for (const ReplicaId replica : ids(ops)) {
    const StageOps& of = ops[replica];
    for (std::size_t residue = 0; residue < of.recomputations.size(); ++residue) {
      const auto &first = of.recomputations[residue], &last = of.last_gradients[residue];
      if (!first || !last || !runs_between(of.forwards, *first, *last)) continue;
      replicas.push_back(replica);
      break;
    }
  }
  return replicas;
}

}  // namespace tandem
