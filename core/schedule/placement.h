#pragma once
// Placement: where the replicas of stages live and how data walks through them.

#include <compare>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/table.h"

namespace tandem {

/// Edges are explicit, so interleaved, V-shaped, bidirectional and replicated pipelines and skip
/// connections need no special case anywhere else: an edge carries exactly the microbatches that
/// both its ends process. INVARIANT: edges ascend, join existing replicas, and form no cycle;
/// `device` and `stage` have one row a replica, `partner` one a device or none.
struct Placement {
  struct Edge {
    ReplicaId from, to;  // a transfer where the devices differ, a plain wait where not
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };
  Table<ReplicaId, DeviceId> device;
  Table<ReplicaId, StageId> stage;  // replicas of one stage reduce their gradients together
  std::vector<Edge> edges;
  std::vector<std::vector<StageId>>
      tied;  // stages that share some parameters (embeddings), ascending
  Table<DeviceId, DeviceId> partner = {};  // to whom a device evicts stashes; empty: none does
  std::uint16_t devices = 0;

  std::size_t replicas() const { return device.size(); }
  std::size_t stages() const;
  /// Replicas on a device, ascending.
  std::vector<ReplicaId> replicas_on(DeviceId device) const;
  /// The replicas of a stage, ascending.
  std::vector<ReplicaId> replicas_of(StageId stage) const;
  /// Stages tied to `stage`, itself included; empty when it is tied to none.
  std::vector<StageId> tied_with(StageId stage) const;
  /// The replicas that share parameters within the copy of the model that `replica` is of, itself
  /// included, in the order of the stages: the j-th of each. Empty: none, or some stage has not as
  /// many replicas as the others.
  std::vector<ReplicaId> replicas_tied_with(ReplicaId replica) const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Stages that each device holds of one copy of the model, the most of any: the j-th replicas of
/// all stages are the j-th copy.
Table<DeviceId, std::size_t> chunks_of(const Placement& placement);

/// One stage a device, in a line: 0 → 1 → … → devices−1.
Placement linear_placement(std::uint16_t devices);

/// `chunks` stages a device, in a line that goes round the devices so often: stage s on device s
/// mod devices.
Placement looped_placement(std::uint16_t devices, std::uint16_t chunks);

/// `chunks` stages a device, walking down the devices and back up, so often.
Placement wave_placement(std::uint16_t devices, std::uint16_t chunks);

/// One wave: stage s < p on device s, stage s ≥ p on 2p−1−s.
Placement v_placement(std::uint16_t devices);

/// Each device d evicts to devices−1−d. REQUIRES: an even number of devices.
void pair_devices(Placement& placement);

/// As many chains over the same stages as directions, one after the other: down the devices, up
/// them (stage i on device p−1−i), and so on, each further pair begun p / (directions / 2) devices
/// further round. Microbatch k takes direction k mod `directions`, as replicas of every kind take
/// theirs. REQUIRES: `directions` is even and divides `devices`.
Placement bidirectional_placement(std::uint16_t devices, std::uint16_t directions = 2);

/// One stage for each entry, replicated that often, a replica a device: {2, 1, 1} is PipeDream's
/// 2-1-1.
Placement replicated_placement(const std::vector<std::uint16_t>& replicas);

}  // namespace tandem
