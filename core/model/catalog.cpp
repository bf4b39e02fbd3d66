#include "core/model/catalog.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/model/catalog_names.h"

namespace tandem {

namespace {

// ---- The catalogue's rows ----

std::string_view name_of(const DeviceSpec& device) { return device.name; }
std::string_view name_of(const GroupSpec& node) { return node.name; }
std::string_view name_of(const CatalogModel& row) { return row.model.name; }

template <class Row>
std::vector<KnownName> known_names(const std::vector<Row>& rows) {
  std::vector<KnownName> known;
  for (const Row& row : rows) known.push_back({std::string(name_of(row))});
  return known;
}

/// Nodes are called by their devices, too.
std::vector<KnownName> node_names() {
  std::vector<KnownName> known = known_names(catalog().nodes);
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (const ClusterMember& member : catalog().nodes[i].members) {
      if (member.device) known[i].also += " " + catalog().devices[*member.device].name;
    }
  }
  return known;
}

/// Somebody who types 8xH100 means devices, and 8xDGX-H100 are 64. `devices`: those that may be
/// meant, by this name.
[[noreturn]] void refuse_devices(std::string_view cluster, std::string_view name,
                                 const std::vector<std::size_t>& devices) {
  std::vector<std::string> nodes;
  for (const GroupSpec& node : catalog().nodes) {
    for (const ClusterMember& member : node.members) {
      if (member.device && std::ranges::find(devices, *member.device) != devices.end())
        nodes.push_back(fmt::format("{} ({} of them)", node.name, member.count));
    }
  }
  throw UsageError(fmt::format(
      "cluster {}: {} is a device: name a node, which says how its devices are linked{}{}{}",
      cluster, devices.size() == 1 ? catalog().devices[devices.front()].name : name,
      nodes.empty() ? "; no node of the catalogue has it, but a cluster file may" : ", such as ",
      fmt::join(nodes, ", "), kCatalogListHint));
}

/// Null: none has this name.
template <class Row>
const Row* find_named(const std::vector<Row>& rows, std::string_view wanted) {
  const auto found = std::ranges::find(rows, wanted, [](const Row& row) { return name_of(row); });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

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

/// "8xDGX-H100", "8 x dgx h100" → 8 and what stands behind the x; 1 and all of it, if no number is
/// there.
static std::pair<std::int32_t, std::string_view> count_and_node(std::string_view name) {
  std::int32_t count = 1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), count);
  const auto digits = static_cast<std::size_t>(end - name.data());
  const std::size_t times = std::min(name.find_first_not_of(' ', digits), name.size());
  if (error != std::errc{} || times == name.size() || (name[times] != 'x' && name[times] != 'X'))
    return {1, name};
  const std::size_t node = std::min(name.find_first_not_of(' ', times + 1), name.size());
  return {count, name.substr(node)};
}

ClusterSpec cluster_of_nodes(std::string_view name) {
  const auto [count, node_name] = count_and_node(name);
  const std::vector<KnownName> known = node_names();
  const Meaning devices = meant_by(node_name, known_names(catalog().devices)),
                nodes = meant_by(node_name, known);
  // A node that is just called so, or alone begins so; several of what is a device's name, too, are
  // devices.
  const bool is_node = nodes.closeness <= Meaning::kSameWords ||
                       (nodes.places.size() == 1 && node_name.size() == name.size() &&
                        lower_case(known[nodes.places.front()].name).starts_with(lower_case(name)));
  if (!is_node && (devices.places.size() == 1 || devices.closeness <= Meaning::kBeginsSo))
    refuse_devices(name, node_name, devices.places);
  const GroupSpec* node =
      &catalog().nodes[the_one_meant(node_name, known, fmt::format("cluster {}: ", name), "node ")];
  constexpr std::int32_t kMost = 4096;
  if (count < 1 || count > kMost)
    throw UsageError(fmt::format("cluster {}: expected 1 to {} nodes", name, kMost));
  ClusterSpec spec{.name = count == 1 ? node->name : fmt::format("{}x{}", count, node->name),
                   .devices = {},
                   .groups = {}};
  const std::size_t group = add_node(spec, *node);
  if (count == 1) return spec;
  if (!node->network)
    throw UsageError(
        fmt::format("cluster {}: the catalogue knows no network of {}", name, node->name));
  spec.root = spec.groups.size();
  spec.groups.push_back(
      {.name = spec.name,
       .members = {{.name = "node", .group = group, .count = count}, {.name = "network"}},
       .joints = {{.from = {.member = 0}, .to = {.member = 1}, .link = *node->network}}});
  return spec;
}

ModelSpec model_of_name(std::string_view name) {
  const std::vector<CatalogModel>& models = catalog().models;
  return models[the_one_meant(name, known_names(models), "", "model ")].model;
}

const DeviceSpec& device_of_name(std::string_view name, std::string_view where) {
  const std::vector<DeviceSpec>& devices = catalog().devices;
  return devices[the_one_meant(name, known_names(devices), where, "device ")];
}

CatalogRow row_of_name(std::string_view name) {
  const Catalog& all = catalog();
  std::vector<KnownName> known = known_names(all.devices);
  for (KnownName& node : node_names()) known.push_back(std::move(node));
  for (KnownName& model : known_names(all.models)) known.push_back(std::move(model));
  std::size_t place = the_one_meant(name, known, "", "");
  if (place < all.devices.size()) return &all.devices[place];
  place -= all.devices.size();
  if (place < all.nodes.size()) return &all.nodes[place];
  return &all.models[place - all.nodes.size()];
}

}  // namespace tandem
