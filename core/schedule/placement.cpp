#include "core/schedule/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"

namespace tandem {

std::size_t Placement::parts() const {
  std::size_t count = 0;
  for (const PartId one : part) count = std::max(count, index(one) + 1);
  return count;
}

std::vector<StageId> Placement::stages_on(DeviceId wanted) const {
  std::vector<StageId> found;
  for (const StageId stage : ids(device)) {
    if (device[stage] == wanted) found.push_back(stage);
  }
  return found;
}

std::vector<StageId> Placement::replicas_of(PartId wanted) const {
  std::vector<StageId> found;
  for (const StageId stage : ids(part)) {
    if (part[stage] == wanted) found.push_back(stage);
  }
  return found;
}

std::vector<PartId> Placement::tied_with(PartId wanted) const {
  for (const std::vector<PartId>& group : tied) {
    if (std::find(group.begin(), group.end(), wanted) != group.end()) return group;
  }
  return {};
}

std::vector<StageId> Placement::stages_tied_with(StageId stage) const {
  const std::vector<StageId> own = replicas_of(part[stage]);
  const auto copy = std::find(own.begin(), own.end(), stage) - own.begin();
  std::vector<StageId> found;
  for (const PartId tied_part : tied_with(part[stage])) {
    const std::vector<StageId> replicas = replicas_of(tied_part);
    if (replicas.size() != own.size()) return {};
    found.push_back(replicas[static_cast<std::size_t>(copy)]);
  }
  return found;
}

Table<DeviceId, std::size_t> chunks_of(const Placement& placement) {
  Table<DeviceId, std::size_t> chunks(placement.devices, 0);
  Table<PartId, std::size_t> copies(placement.parts(), 0);
  std::map<std::pair<DeviceId, std::size_t>, std::size_t> held;  // of which copy
  for (const StageId stage : ids(placement.device)) {
    const DeviceId device = placement.device[stage];
    const std::size_t stages = ++held[{device, copies[placement.part[stage]]++}];
    chunks[device] = std::max(chunks[device], stages);
  }
  return chunks;
}

namespace {

void add_stage(Placement& placement, std::size_t device, std::size_t part) {
  placement.device.push_back(id_at<DeviceId>(device));
  placement.part.push_back(id_at<PartId>(part));
}

void add_edge(Placement& placement, std::size_t from, std::size_t to) {
  placement.edges.push_back({id_at<StageId>(from), id_at<StageId>(to)});
}

}  // namespace

Placement linear_placement(std::uint16_t devices) { return looped_placement(devices, 1); }

Placement looped_placement(std::uint16_t devices, std::uint16_t chunks) {
  Placement placement;
  placement.devices = devices;
  const std::size_t stages = std::size_t{devices} * chunks;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    add_stage(placement, stage % devices, stage);
    if (stage > 0) add_edge(placement, stage - 1, stage);
  }
  return placement;
}

Placement wave_placement(std::uint16_t devices, std::uint16_t chunks) {
  Placement placement;
  placement.devices = devices;
  const std::size_t stages = std::size_t{devices} * chunks;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t place = stage % devices;
    add_stage(placement, stage / devices % 2 == 0 ? place : devices - 1u - place, stage);
    if (stage > 0) add_edge(placement, stage - 1, stage);
  }
  return placement;
}

Placement v_placement(std::uint16_t devices) { return wave_placement(devices, 2); }

void pair_devices(Placement& placement) {
  TANDEM_CHECK(placement.devices % 2 == 0, placement.devices);
  placement.partner.resize(placement.devices);
  for (const DeviceId device : ids(placement.partner)) {
    placement.partner[device] = id_at<DeviceId>(placement.devices - 1u - index(device));
  }
}

Placement bidirectional_placement(std::uint16_t devices, std::uint16_t directions) {
  TANDEM_CHECK(directions > 0 && directions % 2 == 0 && devices % directions == 0, devices,
               directions);
  Placement placement;
  placement.devices = devices;
  for (std::size_t direction = 0; direction < directions; ++direction) {
    const std::size_t first_device = direction / 2 * (devices / (directions / 2u));
    for (std::size_t part = 0; part < devices; ++part) {
      const std::size_t place = direction % 2 == 0 ? part : devices - 1u - part;
      const std::size_t stage = placement.stages();
      add_stage(placement, (place + first_device) % devices, part);
      if (part > 0) add_edge(placement, stage - 1, stage);
    }
  }
  return placement;
}

Placement replicated_placement(const std::vector<std::uint16_t>& replicas) {
  Placement placement;
  std::size_t first_above = 0, stage = 0;
  for (std::size_t part = 0; part < replicas.size(); ++part) {
    TANDEM_CHECK(replicas[part] > 0, part);
    const std::size_t first = stage;
    for (std::size_t replica = 0; replica < replicas[part]; ++replica, ++stage) {
      add_stage(placement, stage, part);
      for (std::size_t above = first_above; part > 0 && above < first; ++above) {
        add_edge(placement, above, stage);
      }
    }
    first_above = first;
  }
  std::sort(placement.edges.begin(), placement.edges.end());
  placement.devices = static_cast<std::uint16_t>(stage);
  return placement;
}

}  // namespace tandem
