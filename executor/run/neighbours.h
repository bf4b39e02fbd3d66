#pragma once
// Neighbours: which stage comes before and after each along the model, for each microbatch. Known
// from the program alone, wherever the stages are run.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/table.h"
#include "core/program/program.h"
#include "executor/run/run_shape.h"

namespace tandem {

class Neighbours {
 public:
  explicit Neighbours(const Program& program)
      : placement_(program.placement()),
        above_(placement_.replicas(), Side(static_cast<std::size_t>(program.microbatches()))),
        below_(above_) {
    const Table<ReplicaId, std::vector<bool>> processes = processed_residues(program);
    for (const Placement::Edge& edge : placement_.edges) {
      for (std::size_t residue = 0; residue < processes[edge.from].size(); ++residue) {
        if (!processes[edge.from][residue] || !processes[edge.to][residue]) continue;
        below_[edge.from][residue] = edge.to;
        above_[edge.to][residue] = edge.from;
      }
    }
  }

  /// Empty at the model's ends.
  std::optional<ReplicaId> above(ReplicaId stage, std::int64_t microbatch) const {
    return of(above_[stage], microbatch);
  }
  std::optional<ReplicaId> below(ReplicaId stage, std::int64_t microbatch) const {
    return of(below_[stage], microbatch);
  }
  /// Who takes what a stage sends.
  ReplicaId receiver(const Op& sent, std::int64_t microbatch) const {
    return carries_output(sent.kind) ? *below(sent.replica, microbatch)
                                     : *above(sent.replica, microbatch);
  }
  /// What passes between the two is not sent.
  bool share_device(ReplicaId one, ReplicaId other) const {
    return placement_.device[one] == placement_.device[other];
  }
  /// Each once or more.
  template <class Visit>
  void for_each_above(ReplicaId stage, const Visit& visit) const {
    for_each(above_[stage], visit);
  }
  template <class Visit>
  void for_each(ReplicaId stage, const Visit& visit) const {
    for_each(above_[stage], visit);
    for_each(below_[stage], visit);
  }

 private:
  using Side = std::vector<std::optional<ReplicaId>>;  // by residue modulo the batch

  static std::optional<ReplicaId> of(const Side& side, std::int64_t microbatch) {
    return side[static_cast<std::size_t>(microbatch) % side.size()];
  }
  template <class Visit>
  static void for_each(const Side& side, const Visit& visit) {
    std::optional<ReplicaId> last;
    for (const std::optional<ReplicaId> neighbour : side) {
      if (neighbour && neighbour != last) visit(*neighbour);
      last = neighbour;
    }
  }

  const Placement& placement_;
  Table<ReplicaId, Side> above_, below_;
};

}  // namespace tandem
