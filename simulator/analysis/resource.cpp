#include "simulator/analysis/resource.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/program/title.h"

namespace tandem {

Resource device_resource(DeviceId device) {
  return {.kind = Resource::Kind::device, .device = device};
}

Resource link_resource(DeviceId one, DeviceId other) {
  return {
      .kind = Resource::Kind::link, .device = std::min(one, other), .peer = std::max(one, other)};
}

std::string name(const Resource& resource) {
  switch (resource.kind) {
    case Resource::Kind::all_devices:
      return "all devices";
    case Resource::Kind::all_links:
      return "all links";
    case Resource::Kind::sums:
      return "sums";
    case Resource::Kind::device:
      return fmt::format("device {}", index(resource.device));
    case Resource::Kind::link:
      return fmt::format("link {}-{}", index(resource.device), index(resource.peer));
    case Resource::Kind::op:
      return fmt::format("{} of stage {}", words(name(resource.op)), index(resource.replica));
  }
  return {};
}

bool uses(const Resource& resource, const CostKey& key) {
  const bool computes = on_compute_lane(key.kind);
  switch (resource.kind) {
    case Resource::Kind::all_devices:
      return computes;
    case Resource::Kind::all_links:
      return is_transfer(key.kind);
    case Resource::Kind::sums:
      return is_collective(key.kind);
    case Resource::Kind::device:
      return computes && key.source == resource.device;
    case Resource::Kind::link:
      return is_transfer(key.kind) && link_resource(key.source, key.target) == resource;
    case Resource::Kind::op:
      return computes && key.replica == resource.replica && key.kind == resource.op;
  }
  return false;
}

std::vector<Resource> resources(const Program& program) {
  std::set<Resource> found;
  for (const CostKey& key : program.cost_keys()) {
    if (on_compute_lane(key.kind)) {
      found.insert(Resource{.kind = Resource::Kind::all_devices});
      found.insert(device_resource(key.source));
      found.insert(Resource{.kind = Resource::Kind::op, .replica = key.replica, .op = key.kind});
    } else if (is_transfer(key.kind)) {
      found.insert(Resource{.kind = Resource::Kind::all_links});
      found.insert(link_resource(key.source, key.target));
    } else {
      found.insert(Resource{.kind = Resource::Kind::sums});
    }
  }
  return {found.begin(), found.end()};
}

CostTable scaled(const Program& program, const CostTable& costs, const Resource& resource,
                 double factor) {
  TANDEM_CHECK(factor >= 0.0, factor);
  CostTable table = costs;
  for (const CostId cost : ids(table)) {
    if (!uses(resource, program.cost_keys()[cost])) continue;
    const double time = static_cast<double>(costs[cost].count()) * factor;
    if (time >= 0x1p62) {
      throw InputError(fmt::format("{}: an op would take longer than can be counted in nanoseconds",
                                   name(resource)));
    }
    table[cost] = Duration(std::llround(time));
  }
  return table;
}

}  // namespace tandem
