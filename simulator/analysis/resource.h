#pragma once
// Resource: prices that change together when something becomes faster or slower — a device, a link,
// one kind of op of a stage.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "core/program/cost.h"

namespace tandem {

struct Resource {
  enum class Kind : std::uint8_t {
    all_devices,  // every compute lane
    all_links,    // every transfer
    sums,         // gradient sums, tied sums and norms
    device,       // the compute lane of `device`
    link,         // transfers between `device` and `peer`, both ways
    op,           // ops of kind `op` of `replica`, on its compute lane
  };
  Kind kind = Kind::all_devices;
  DeviceId device{}, peer{};  // of a link: the lower one first
  ReplicaId replica{};
  OpKind op{};
  friend auto operator<=>(const Resource&, const Resource&) = default;
};

Resource device_resource(DeviceId device);
/// REQUIRES: two devices.
Resource link_resource(DeviceId one, DeviceId other);

/// "device 3", "link 2-3", "forward of stage 1", "all devices", "all links", "sums".
std::string name(const Resource& resource);

/// Whether the price belongs to the resource.
bool uses(const Resource& resource, const CostKey& key);

/// Those that a program has prices for, in order.
std::vector<Resource> resources(const Program& program);

/// `costs` where the resource takes `factor` times as long; times are rounded.
/// REQUIRES: factor ≥ 0. Throws InputError when a time is beyond the clock.
CostTable scaled(const Program& program, const CostTable& costs, const Resource& resource,
                 double factor);

}  // namespace tandem
