#include "core/schedule/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"

namespace tandem {

std::size_t Placement::stages() const {
  std::size_t count = 0;
  for (const StageId one : stage) count = std::max(count, index(one) + 1);
  return count;
}

template <class Id>
static std::vector<ReplicaId> replicas_with(const Table<ReplicaId, Id>& table, Id wanted) {
  std::vector<ReplicaId> found;
  for (const ReplicaId replica : ids(table)) {
    if (table[replica] == wanted) found.push_back(replica);
  }
  return found;
}

std::vector<ReplicaId> Placement::replicas_on(DeviceId wanted) const {
  return replicas_with(device, wanted);
}

std::vector<ReplicaId> Placement::replicas_of(StageId wanted) const {
  return replicas_with(stage, wanted);
}

std::vector<StageId> Placement::tied_with(StageId wanted) const {
  for (const std::vector<StageId>& group : tied) {
    if (std::find(group.begin(), group.end(), wanted) != group.end()) return group;
  }
  return {};
}

std::vector<ReplicaId> Placement::replicas_tied_with(ReplicaId replica) const {
  const std::vector<ReplicaId> own = replicas_of(stage[replica]);
  const auto copy = std::find(own.begin(), own.end(), replica) - own.begin();
  std::vector<ReplicaId> found;
  for (const StageId tied_stage : tied_with(stage[replica])) {
    const std::vector<ReplicaId> replicas = replicas_of(tied_stage);
    if (replicas.size() != own.size()) return {};
    found.push_back(replicas[static_cast<std::size_t>(copy)]);
  }
  return found;
}

Table<DeviceId, std::size_t> chunks_of(const Placement& placement) {
  Table<DeviceId, std::size_t> chunks(placement.devices, 0);
  Table<StageId, std::size_t> copies(placement.stages(), 0);
  std::map<std::pair<DeviceId, std::size_t>, std::size_t> held;  // of which copy
  for (const ReplicaId replica : ids(placement.device)) {
    const DeviceId device = placement.device[replica];
    const std::size_t stages = ++held[{device, copies[placement.stage[replica]]++}];
    chunks[device] = std::max(chunks[device], stages);
  }
  return chunks;
}

namespace {

void add_replica(Placement& placement, std::size_t device, std::size_t stage) {
  placement.device.push_back(id_at<DeviceId>(device));
  placement.stage.push_back(id_at<StageId>(stage));
}

void add_edge(Placement& placement, std::size_t from, std::size_t to) {
  placement.edges.push_back({id_at<ReplicaId>(from), id_at<ReplicaId>(to)});
}

/// A line of stages that passes the devices `chunks` times; if it `turns`, every second time back
/// up.
Placement passing(std::uint16_t devices, std::uint16_t chunks, bool turns) {
  Placement placement;
  placement.devices = devices;
  const std::size_t stages = std::size_t{devices} * chunks;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t place = stage % devices;
    const bool back = turns && stage / devices % 2 == 1;
    add_replica(placement, back ? devices - 1u - place : place, stage);
    if (stage > 0) add_edge(placement, stage - 1, stage);
  }
  return placement;
}

}  // namespace

Placement linear_placement(std::uint16_t devices) { return looped_placement(devices, 1); }

Placement looped_placement(std::uint16_t devices, std::uint16_t chunks) {
  return passing(devices, chunks, false);
}

Placement wave_placement(std::uint16_t devices, std::uint16_t chunks) {
  return passing(devices, chunks, true);
}

Placement v_placement(std::uint16_t devices) { return wave_placement(devices, 2); }

void pair_devices(Placement& placement) {
  TANDEM_CHECK(placement.devices % 2 == 0, placement.devices);
  placement.partner.resize(placement.devices);
  for (const DeviceId device : ids(placement.partner))
    placement.partner[device] = id_at<DeviceId>(placement.devices - 1u - index(device));
}

Placement bidirectional_placement(std::uint16_t devices, std::uint16_t directions) {
  TANDEM_CHECK(directions > 0 && directions % 2 == 0 && devices % directions == 0, devices,
               directions);
  Placement placement;
  placement.devices = devices;
  for (std::size_t direction = 0; direction < directions; ++direction) {
    const std::size_t first_device = direction / 2 * (devices / (directions / 2u));
    for (std::size_t stage = 0; stage < devices; ++stage) {
      const std::size_t place = direction % 2 == 0 ? stage : devices - 1u - stage;
      const std::size_t replica = placement.replicas();
      add_replica(placement, (place + first_device) % devices, stage);
      if (stage > 0) add_edge(placement, replica - 1, replica);
    }
  }
  return placement;
}

Placement replicated_placement(const std::vector<std::uint16_t>& replicas) {
  Placement placement;
  std::size_t first_above = 0, replica = 0;
  for (std::size_t stage = 0; stage < replicas.size(); ++stage) {
    TANDEM_CHECK(replicas[stage] > 0, stage);
    const std::size_t first = replica, end = first + replicas[stage];
    for (; replica < end; ++replica) {
      add_replica(placement, replica, stage);
      for (std::size_t above = first_above; stage > 0 && above < first; ++above)
        add_edge(placement, above, replica);
    }
    first_above = first;
  }
  std::sort(placement.edges.begin(), placement.edges.end());
  placement.devices = static_cast<std::uint16_t>(replica);
  return placement;
}

}  // namespace tandem
