#pragma once
// What a program's stages take in memory for any cut of the model: slots depend on the program
// alone, bytes a slot on the cut alone.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/memory/memory.h"
#include "core/memory/storage.h"
#include "core/model/plan.h"
#include "planner/search/candidates.h"

namespace tandem {

/// How a model is cut into stages.
enum class StageCut : std::uint8_t {
  balanced,  // the busiest stage computes as little as can be, of the cuts in which each stage fits
             // its device if there are any
  even,      // as many blocks in each, as Megatron does
  given,     // as the plan's stages say
  blocks,  // as balanced, where no stage ends within a block: other engines' stages hold whole ones
};

/// "balanced", "even", "given", "blocks".
std::string_view name(StageCut cut);

/// The layers where stages may start and end under a cut: any, or those between blocks.
std::vector<std::int32_t> boundaries_of(const ModelSpec& model, StageCut cut);

struct ClassBytes {
  std::string_view name;
  Bytes bytes = 0;
};

/// weights, versions, gradients, optimizer, activations, buffers.
std::array<ClassBytes, 6> classes(const MemoryByClass& memory);
/// The first of the largest.
ClassBytes largest_class(const MemoryByClass& memory);
DeviceId fullest_device(const Table<DeviceId, MemoryByClass>& memory);

/// Bytes of layer ranges, each worked out once.
class RangeBytes {
 public:
  using Source = std::function<StageBytes(LayerRange, std::int32_t microbatch_size, Recompute,
                                          const Slicing&)>;
  explicit RangeBytes(Source source) : source_(std::move(source)) {}
  /// Those of the executors.
  RangeBytes(const ModelSpec& model, Optimizer optimizer, Storage storage = Storage::f32);
  const StageBytes& of(LayerRange range, std::int32_t microbatch_size, Recompute recompute,
                       const Slicing& slices = {});
  /// As the plan has it.
  const StageBytes& of(LayerRange range, const Plan& plan) {
    return of(range, plan.microbatch_size, plan.request.recompute, plan.request.slices);
  }
  /// How many are known.
  std::size_t size() const { return known_.size(); }

 private:
  Source source_;
  std::map<std::tuple<std::int32_t, Recompute, LayerRange, Slicing>, StageBytes> known_;
};

/// Bytes that a stage alone on its device needs there: stashes that it hosts for its partner apart.
Bytes stage_total(const StageSlots& slots, const StageBytes& bytes);

/// The bytes of each device under a cut. REQUIRES: a range for each stage of the placement.
Table<DeviceId, MemoryByClass> device_memory(const Program& program, const SlotCounts& slots,
                                             const Plan& plan, RangeBytes& bytes);

/// The device that is furthest above `limit`; empty: all are within.
std::optional<MemoryMiss> memory_miss(const Table<DeviceId, MemoryByClass>& memory, Bytes limit);
std::optional<MemoryMiss> memory_miss(const Table<DeviceId, MemoryByClass>& memory,
                                      const Table<DeviceId, Bytes>& limits);

/// The cut whose largest stage, workspace included, is smallest: the largest device, where each has
/// one stage. REQUIRES: no more stages than layers, no replicas.
std::vector<LayerRange> least_memory_cut(const SlotCounts& slots, const Plan& plan,
                                         RangeBytes& bytes);

}  // namespace tandem
