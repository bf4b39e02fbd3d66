#include "executor/checkpoint/kept_tensors.h"

#include <cstddef>

#include "executor/checkpoint/named_parts.h"

namespace tandem {

std::vector<KeptTensor> kept_tensors(const Program& program, const SlotCounts& slots,
                                     const ModelSpec& model, std::span<const LayerRange> layers,
                                     Optimizer optimizer) {
  std::vector<KeptTensor> kept;
  std::size_t stage = 0;
  for (const LayerTensor& each : tensors_of(model)) {
    while (each.layer >= layers[stage].last) ++stage;
    const ReplicaId shown = shown_replica(program, slots, id_at<StageId>(stage));
    kept.push_back({each.tensor, planes_of(slots[shown], optimizer, each.tensor)});
  }
  return kept;
}

double copied_bytes(const ModelSpec& model, const std::vector<KeptTensor>& kept) {
  double bytes = 0;
  for (const KeptTensor& each : kept) {
    for (const NamedPart& part : named_parts(model, each.tensor))
      bytes += static_cast<double>(part.size()) * static_cast<double>(each.planes.size()) *
               sizeof(float);
  }
  return bytes;
}

}  // namespace tandem
