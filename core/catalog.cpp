#include "core/catalog.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "core/io/cluster_file.h"

namespace tandem {

namespace {

std::string_view name_of(const DeviceSpec& device) { return device.name; }
std::string_view name_of(const GroupSpec& node) { return node.name; }
std::string_view name_of(const CatalogModel& row) { return row.model.name; }

template <class Row>
std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(name_of(row));
  return names;
}

/// Null: none has this name.
template <class Row>
const Row* find_named(const std::vector<Row>& rows, std::string_view wanted) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& row) { return name_of(row) == wanted; });
  return found == rows.end() ? nullptr : &*found;
}

constexpr std::string_view kListed = " (tandem catalog list shows all)";

}  // namespace

const Catalog& catalog() {
  static const Catalog known = parse_catalog("catalog.json", std::string(catalog_text()));
  return known;
}

const DeviceSpec* find_device(std::string_view name) { return find_named(catalog().devices, name); }
const GroupSpec* find_node(std::string_view name) { return find_named(catalog().nodes, name); }
const CatalogModel* find_model(std::string_view name) { return find_named(catalog().models, name); }

std::size_t add_device(ClusterSpec& spec, const DeviceSpec& device) {
  if (const DeviceSpec* known = find_named(spec.devices, device.name))
    return static_cast<std::size_t>(known - spec.devices.data());
  spec.devices.push_back(device);
  return spec.devices.size() - 1;
}

std::size_t add_node(ClusterSpec& spec, const GroupSpec& node) {
  if (const GroupSpec* known = find_named(spec.groups, node.name))
    return static_cast<std::size_t>(known - spec.groups.data());
  GroupSpec group = node;
  for (ClusterMember& member : group.members) {
    if (member.device) member.device = add_device(spec, catalog().devices[*member.device]);
  }
  spec.groups.push_back(std::move(group));
  return spec.groups.size() - 1;
}

ClusterSpec cluster_of_nodes(std::string_view name) {
  std::int32_t count = 1;
  std::string_view node_name = name;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), count);
  const auto digits = static_cast<std::size_t>(end - name.data());
  if (error == std::errc{} && digits < name.size() && name[digits] == 'x') {
    node_name.remove_prefix(digits + 1);
  } else {
    count = 1;
  }
  const GroupSpec* node = find_node(node_name);
  if (node == nullptr && find_device(node_name) != nullptr) {
    throw UsageError(fmt::format(
        "cluster {}: {} is a device: name a node, which says how its devices are linked{}", name,
        node_name, kListed));
  }
  if (node == nullptr) {
    throw UsageError(fmt::format("cluster {}: the catalogue has no node {}{}{}", name, node_name,
                                 did_you_mean(node_name, names_of(catalog().nodes)), kListed));
  }
  constexpr std::int32_t kMost = 4096;
  if (count < 1 || count > kMost)
    throw UsageError(fmt::format("cluster {}: expected 1 to {} nodes", name, kMost));
  ClusterSpec spec{.name = std::string(name), .devices = {}, .groups = {}};
  const std::size_t group = add_node(spec, *node);
  if (count == 1) return spec;
  if (!node->network)
    throw UsageError(
        fmt::format("cluster {}: the catalogue knows no network of {}", name, node_name));
  spec.root = spec.groups.size();
  spec.groups.push_back(
      {.name = spec.name,
       .members = {{.name = "node", .group = group, .count = count}, {.name = "network"}},
       .joints = {{.from = {.member = 0}, .to = {.member = 1}, .link = *node->network}}});
  return spec;
}

ModelSpec model_of_name(std::string_view name) {
  const CatalogModel* row = find_model(name);
  if (row != nullptr) return row->model;
  throw UsageError(fmt::format("the catalogue has no model {}{}{}", name,
                               did_you_mean(name, names_of(catalog().models)), kListed));
}

}  // namespace tandem
