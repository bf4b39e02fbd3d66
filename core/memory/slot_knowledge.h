#pragma once
// Inside of count_slots(): what devices can know of one another. Nobody else includes this.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"

namespace tandem {

/// Stages of which a forward may run between the recomputation of a microbatch and its last
/// gradient (StageSlots::forwards_in_workspace). REQUIRES: as count_slots().
std::vector<ReplicaId> forwards_in_workspace(const Program& program);

/// Of each stage, how many slots of a ring serve the microbatches between the backward of their
/// last slice and that of their first one, taken in the order in which they begin, all on one lane;
/// 0 where sequences are whole.
Table<ReplicaId, std::int32_t> context_gradients(const Program& program);

/// Counts what is in pieces of pools, stashes and contexts: as many as are held at once, for all
/// uses are on the compute lane of the stage's device. REQUIRES: it is counted who forwards in the
/// workspace.
void count_pooled(const Program& program, SlotCounts& slots);

}  // namespace tandem

namespace tandem::slots {

/// Rings whose uses begin or end on several lanes: of the others the order of one says how many.
constexpr bool counted_by_knowledge(SlotKind kind) {
  return !is_version(kind) && kind != SlotKind::stash && kind != SlotKind::eviction_buffer &&
         kind != SlotKind::context_gradient && kind != SlotKind::context;
}

/// Of an instruction on its lane, counted over all bodies.
using Position = std::int64_t;
inline constexpr Position kNothing = std::numeric_limits<Position>::min() / 4;
inline constexpr std::int32_t kAbsent = -1;

/// A microbatch as batch and residue, or an update as batch and its number there.
struct Turn {
  std::int64_t batch = 0;
  std::int32_t residue = 0;
  friend auto operator<=>(const Turn&, const Turn&) = default;

  void advance(std::int32_t a_batch) {
    if (++residue == a_batch) *this = {batch + 1, 0};
  }
};

inline bool tracked(const Lane& lane) {
  return lane.kind == LaneKind::compute || lane.kind == LaneKind::collective;
}

/// Which lanes each device tracks: what it knows is a row of positions, one a lane.
class KnowledgeSpace {
 public:
  explicit KnowledgeSpace(const Program& program)
      : places_(program.placement().devices),
        lanes_(program.placement().devices),
        common_(program.placement().devices) {
    Table<DeviceId, std::vector<bool>> peer(program.placement().devices,
                                            std::vector<bool>(program.placement().devices, false));
    for (const DeviceId device : ids(peer)) peer[device][index(device)] = true;
    for (const CostKey& key : program.cost_keys())
      peer[key.source][index(key.target)] = peer[key.target][index(key.source)] = true;
    for (const Instruction& instruction : program.instructions()) {
      if (!is_collective(instruction.op.kind)) continue;
      for (const LaneId a : program.lanes(instruction)) {
        for (const LaneId b : program.lanes(instruction))
          peer[program.lanes()[a].device][index(program.lanes()[b].device)] = true;
      }
    }
    for (const DeviceId device : ids(peer)) {
      places_[device].assign(program.lanes().size(), kAbsent);
      for (const LaneId lane : ids(program.lanes())) {
        if (!tracked(program.lanes()[lane])) continue;
        if (!peer[device][index(program.lanes()[lane].device)]) continue;
        places_[device][index(lane)] = static_cast<std::int32_t>(lanes_[device].size());
        lanes_[device].push_back(lane);
      }
    }
  }

  const std::vector<LaneId>& lanes_of(DeviceId device) const { return lanes_[device]; }
  std::size_t width(DeviceId device) const { return lanes_[device].size(); }
  /// Where `device` keeps what it knows of `lane`, or kAbsent.
  std::int32_t place(DeviceId device, LaneId lane) const { return places_[device][index(lane)]; }

  /// Lets `into`, a row of `device`, know what `from`, a row of `other`, says.
  void learn(DeviceId device, Position* into, DeviceId other, const Position* from) {
    if (device == other) {
      for (std::size_t i = 0; i < width(device); ++i) into[i] = std::max(into[i], from[i]);
      return;
    }
    for (const auto& [here, there] : common(device, other).places)
      into[here] = std::max(into[here], from[there]);
  }

 private:
  /// Where a device and another one keep what both track.
  struct Common {
    DeviceId other{};
    std::vector<std::pair<std::uint32_t, std::uint32_t>> places{};
  };
  const Common& common(DeviceId device, DeviceId other) {
    for (const Common& known : common_[device]) {
      if (known.other == other) return known;
    }
    Common& fresh = common_[device].emplace_back(Common{other});
    for (std::uint32_t there = 0; there < width(other); ++there) {
      const std::int32_t here = place(device, lanes_[other][there]);
      if (here != kAbsent) fresh.places.emplace_back(static_cast<std::uint32_t>(here), there);
    }
    return fresh;
  }

  Table<DeviceId, std::vector<std::int32_t>> places_;
  Table<DeviceId, std::vector<LaneId>> lanes_;
  Table<DeviceId, std::vector<Common>> common_;  // as far as asked for; few
};

}  // namespace tandem::slots
