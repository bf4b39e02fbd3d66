#include "planner/search/stage_memory.h"

#include <algorithm>

#include "core/base/check.h"
#include "planner/search/partition.h"

namespace tandem {

std::string_view name(StageCut cut) {
  constexpr std::array<std::string_view, 4> kNames{"balanced", "even", "given", "blocks"};
  return kNames[static_cast<std::size_t>(cut)];
}

std::vector<std::int32_t> boundaries_of(const ModelSpec& model, StageCut cut) {
  const std::vector<LayerKind> kinds = layers_of(model);
  std::vector<std::int32_t> boundaries{0};
  for (std::size_t layer = 1; layer < kinds.size(); ++layer) {
    const bool within = kinds[layer - 1] == LayerKind::attention && is_mlp(kinds[layer]);
    if (cut != StageCut::blocks || !within) boundaries.push_back(static_cast<std::int32_t>(layer));
  }
  boundaries.push_back(static_cast<std::int32_t>(kinds.size()));
  return boundaries;
}

std::array<ClassBytes, 6> classes(const MemoryByClass& memory) {
  return {{{"weights", memory.weights},
           {"versions", memory.versions},
           {"gradients", memory.gradients},
           {"optimizer", memory.optimizer},
           {"activations", memory.activations},
           {"buffers", memory.buffers}}};
}

ClassBytes largest_class(const MemoryByClass& memory) {
  return std::ranges::max(classes(memory), {}, &ClassBytes::bytes);
}

DeviceId fullest_device(const Table<DeviceId, MemoryByClass>& memory) {
  DeviceId fullest{};
  for (const DeviceId device : ids(memory)) {
    if (memory[device].total() > memory[fullest].total()) fullest = device;
  }
  return fullest;
}

RangeBytes::RangeBytes(const ModelSpec& model, Optimizer optimizer, Storage storage)
    : RangeBytes([model, optimizer, storage](LayerRange range, std::int32_t microbatch_size,
                                             Recompute recompute, const Slicing& slices) {
        return stage_bytes(model, range, microbatch_size, optimizer, recompute, storage,
                           sequence_parts(slices, model));
      }) {}

const StageBytes& RangeBytes::of(LayerRange range, std::int32_t microbatch_size,
                                 Recompute recompute, const Slicing& slices) {
  const std::tuple key(microbatch_size, recompute, range, slices);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, source_(range, microbatch_size, recompute, slices)).first->second;
}

Bytes stage_total(const StageSlots& slots, const StageBytes& bytes) {
  Bytes total = optimizer_of(slots, bytes) + workspace_of(slots, bytes);
  for (std::size_t kind = 0; kind < kSlotKinds; ++kind) {
    if (kind != index(SlotKind::hosted_stash)) total += slots.counts[kind] * bytes.slot[kind];
  }
  return total;
}

Table<DeviceId, MemoryByClass> device_memory(const Program& program, const SlotCounts& slots,
                                             const Plan& plan, RangeBytes& bytes) {
  const Placement& placement = program.placement();
  TANDEM_CHECK(placement.stages() == plan.stages.size(), placement.stages(), plan.stages.size());
  Table<ReplicaId, StageBytes> of_replicas(placement.replicas());
  for (const ReplicaId replica : ids(of_replicas)) {
    of_replicas[replica] = bytes.of(plan.stages[index(placement.stage[replica])], plan);
  }
  return memory_by_class(program, slots, of_replicas);
}

std::optional<MemoryMiss> memory_miss(const Table<DeviceId, MemoryByClass>& memory, Bytes limit) {
  return memory_miss(memory, Table<DeviceId, Bytes>(memory.size(), limit));
}

std::optional<MemoryMiss> memory_miss(const Table<DeviceId, MemoryByClass>& memory,
                                      const Table<DeviceId, Bytes>& limits) {
  MemoryMiss miss;
  for (const DeviceId device : ids(memory)) {
    const Bytes excess = memory[device].total() - limits[device];
    if (excess <= miss.excess) continue;
    const ClassBytes largest = largest_class(memory[device]);
    miss = {memory[device].total(), excess, device, largest.name, largest.bytes};
  }
  if (miss.excess == 0) return std::nullopt;
  return miss;
}

std::vector<LayerRange> least_memory_cut(const SlotCounts& slots, const Plan& plan,
                                         RangeBytes& bytes) {
  const auto cost = [&](LayerRange range, std::size_t stage) {
    return stage_total(slots.rows()[stage], bytes.of(range, plan));
  };
  const auto layers = static_cast<std::int32_t>(layers_of(plan.model).size());
  auto cut = partition(
      {.layers = layers, .depth = static_cast<std::int32_t>(stage_count(plan)), .cost = cost});
  TANDEM_CHECK(cut.has_value(), layers, plan.request.devices);
  return std::move(*cut);
}

}  // namespace tandem
