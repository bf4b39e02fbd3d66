#include "core/model/catalog.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/base/error.h"

namespace tandem {

namespace {

// ---- What somebody means who does not type a name as the catalogue has it ----

/// Ends the messages about names that the catalogue has not.
constexpr std::string_view kCatalogListHint = " (tandem catalog list shows all)";

struct KnownName {
  std::string name;
  std::string also = {};  // what the same may be called by beside: a node's devices
};

bool is_word(std::string_view text, std::size_t at) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  // 1.3b is another model than 13b.
  if (text[at] == '.') return at > 0 && digit(at - 1) && digit(at + 1);
  return std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

/// "DGX-A100" → dgx, a100.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool word = is_word(text, at);
    if (word && !inside) words.emplace_back();
    if (word) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
    inside = word;
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ""));
}

/// Whether each typed word begins one of the name's.
bool has_all(const std::vector<std::string>& words, const std::vector<std::string>& typed) {
  return std::ranges::all_of(typed, [&](const std::string& one) {
    return std::ranges::any_of(words,
                               [&](const std::string& word) { return word.starts_with(one); });
  });
}

/// Places of the names that may be meant, of the closest kind that there are: the name itself; but
/// for case; but for what parts its words; names that begin so; names that have all these words, or
/// beginnings of them; the same with what they may be called by. Empty: none.
std::vector<std::size_t> meant_by(std::string_view typed, const std::vector<KnownName>& known) {
  const std::vector<std::string> words = words_of(typed);
  const std::string small = lower_case(typed), plain = joined(words);
  const std::function<bool(const KnownName&)> ways[] = {
      [&](const KnownName& one) { return one.name == typed; },
      [&](const KnownName& one) { return lower_case(one.name) == small; },
      [&](const KnownName& one) { return joined(words_of(one.name)) == plain; },
      [&](const KnownName& one) { return joined(words_of(one.name)).starts_with(plain); },
      [&](const KnownName& one) { return has_all(words_of(one.name), words); },
      [&](const KnownName& one) { return has_all(words_of(one.name + " " + one.also), words); }};
  std::vector<std::size_t> places;
  for (const auto& way : ways) {
    for (std::size_t place = 0; place < known.size() && plain.size() > 1; ++place) {
      if (way(known[place])) places.push_back(place);
    }
    if (!places.empty()) break;
  }
  return places;
}

/// The only one that is meant. Throws UsageError, which names those that may be, or the nearest:
/// "{where}the catalogue has no model gpt2-xxl; did you mean …".
std::size_t the_one_meant(std::string_view typed, const std::vector<KnownName>& known,
                          std::string_view where, std::string_view kind) {
  const std::vector<std::size_t> places = meant_by(typed, known);
  if (places.size() == 1) return places.front();
  if (places.empty()) {
    std::vector<std::string> names;
    for (const KnownName& one : known) names.push_back(one.name);
    throw UsageError(fmt::format("{}the catalogue has no {}{}{}{}", where, kind, typed,
                                 did_you_mean(typed, names), kCatalogListHint));
  }
  constexpr std::size_t kMost = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMost, places.size()); ++i)
    list += (i == 0 ? "" : ", ") + known[places[i]].name;
  throw UsageError(fmt::format("{}{}{} may be any of {}{}: name one{}", where, kind, typed, list,
                               places.size() > kMost ? ", …" : "", kCatalogListHint));
}

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

/// Somebody who types 8xH100 means devices, and 8xDGX-H100 are 64.
[[noreturn]] void refuse_device(std::string_view cluster, const DeviceSpec& device) {
  std::vector<std::string> nodes;
  for (const GroupSpec& node : catalog().nodes) {
    for (const ClusterMember& member : node.members) {
      if (member.device && catalog().devices[*member.device].name == device.name)
        nodes.push_back(fmt::format("{} ({} of them)", node.name, member.count));
    }
  }
  throw UsageError(fmt::format(
      "cluster {}: {} is a device: name a node, which says how its devices are linked{}{}{}",
      cluster, device.name, nodes.empty() ? "" : ", such as ", fmt::join(nodes, ", "),
      kCatalogListHint));
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

ClusterSpec cluster_of_nodes(std::string_view name) {
  std::int32_t count = 1;
  std::string_view node_name = name;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), count);
  const auto digits = static_cast<std::size_t>(end - name.data());
  if (error == std::errc{} && digits < name.size() &&
      (name[digits] == 'x' || name[digits] == 'X')) {
    node_name.remove_prefix(digits + 1);
  } else {
    count = 1;
  }
  const std::vector<KnownName> known = node_names();
  const std::vector<std::size_t> devices = meant_by(node_name, known_names(catalog().devices));
  if (meant_by(node_name, known).size() != 1 && devices.size() == 1)
    refuse_device(name, catalog().devices[devices.front()]);
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
