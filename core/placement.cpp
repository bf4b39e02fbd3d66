#include "core/placement.h"

#include <algorithm>

#include "core/check.h"

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

Placement v_placement(std::uint16_t devices) {
  Placement placement;
  placement.devices = devices;
  const std::size_t stages = 2u * devices;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    add_stage(placement, stage < devices ? stage : stages - 1 - stage, stage);
    if (stage > 0) add_edge(placement, stage - 1, stage);
  }
  return placement;
}

Placement bidirectional_placement(std::uint16_t devices) {
  Placement placement;
  placement.devices = devices;
  for (std::size_t stage = 0; stage < devices; ++stage) {
    add_stage(placement, stage, stage);
    if (stage > 0) add_edge(placement, stage - 1, stage);
  }
  for (std::size_t part = 0; part < devices; ++part) {
    add_stage(placement, devices - 1u - part, part);
    if (part > 0) add_edge(placement, devices + part - 1, devices + part);
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
