#include "core/program/versions.h"

#include <algorithm>

#include "core/base/units.h"

namespace tandem {

WeightVersions::WeightVersions(const Program& program)
    : microbatches_(program.microbatches()),
      forwards_alone_(program.forwards_alone()),
      last_covered_(program.placement().replicas()) {
  readers_.reserve(program.size());
  for (const Instruction& instruction : program.instructions()) {
    const Op& op = instruction.op;
    readers_.push_back({op.kind, op.replica, op.staleness});
    if (makes_version(op.kind)) last_covered_[op.replica].push_back(op.microbatch % microbatches_);
  }
  for (auto& residues : last_covered_) std::sort(residues.begin(), residues.end());
}

std::int64_t WeightVersions::covering_update(ReplicaId replica, std::int64_t microbatch) const {
  const std::int64_t batch = floor_div(microbatch, std::int64_t{microbatches_});
  const std::int64_t residue = microbatch - batch * microbatches_;
  const std::vector<std::int32_t>& last = last_covered_[replica];
  if (last.empty()) return batch;
  const auto covering = std::lower_bound(last.begin(), last.end(), residue);
  return batch * std::ssize(last) + (covering - last.begin());
}

std::optional<std::int64_t> WeightVersions::operator()(const Instance& instance) const {
  const Reader& reader = readers_[instance.id];
  const std::int64_t update = covering_update(reader.replica, instance.microbatch);
  if (makes_version(reader.kind)) return update + 1;
  if (!reads_weights(reader.kind)) return std::nullopt;
  if (forwards_alone_) return 0;
  return std::max<std::int64_t>(update - reader.staleness, 0);
}

}  // namespace tandem
