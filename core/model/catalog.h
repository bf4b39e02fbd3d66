#pragma once
// The catalogue: devices, nodes and models known by name, part of the library,
// each with the source of its figures.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/model/cluster.h"
#include "core/model/model.h"

namespace tandem {

/// A model by its name, and where its figures are from.
struct CatalogModel {
  ModelSpec model;
  std::string source;
};

/// All that is known by name.
struct Catalog {
  std::vector<DeviceSpec> devices;
  std::vector<GroupSpec> nodes;  // their members' devices are those above
  std::vector<CatalogModel> models;
};

/// Read once, at the first call.
const Catalog& catalog();

/// Null: none has just this name.
const DeviceSpec* find_device(std::string_view name);
const GroupSpec* find_node(std::string_view name);
const CatalogModel* find_model(std::string_view name);

/// The index of `device` in `spec`, which gets it if it has none of this name.
std::size_t add_device(ClusterSpec& spec, const DeviceSpec& device);
/// The index of a node of the catalogue in `spec`, which gets it, with its devices.
std::size_t add_node(ClusterSpec& spec, const GroupSpec& node);

/// By what people type: "p3.16xlarge", or "8xp3.16xlarge": as many nodes, joined
/// at their ports by the network that the catalogue gives them, each to one switch that is never
/// the bottleneck. Throws UsageError.
ClusterSpec cluster_of_nodes(std::string_view name);

/// By what people type. Throw UsageError with the nearest name when there is none, and with all
/// that may be meant where there are several. `where`: what the message begins with.
ModelSpec model_of_name(std::string_view name);
const DeviceSpec& device_of_name(std::string_view name, std::string_view where = {});
/// Whatever it is.
using CatalogRow = std::variant<const DeviceSpec*, const GroupSpec*, const CatalogModel*>;
/// Throws UsageError as above.
CatalogRow row_of_name(std::string_view name);

}  // namespace tandem
