// The catalogue, put into the binary by the assembler, and its reader. TANDEM_CATALOG: its file.

#include <utility>

#include <fmt/format.h>

#include "core/files/cluster_file.h"
#include "core/files/model_file.h"
#include "core/text/embedded.h"

namespace tandem {
namespace {

constexpr std::int64_t kCatalogFileVersion = 1;

/// A figure without its source is no figure.
void check_sources(const Catalog& catalog, const JsonReader& root) {
  for (const DeviceSpec& device : catalog.devices) {
    if (device.source.empty()) root.diagnose(fmt::format("device {} has no source", device.name));
  }
  for (const GroupSpec& node : catalog.nodes) {
    if (node.source.empty()) root.diagnose(fmt::format("node {} has no source", node.name));
  }
  for (const CatalogModel& row : catalog.models) {
    if (row.source.empty()) root.diagnose(fmt::format("model {} has no source", row.model.name));
  }
}

}  // namespace

TANDEM_EMBED(catalog_text, TANDEM_CATALOG);

Catalog parse_catalog(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  const JsonReader root = json.root();
  Catalog catalog;
  if (root.object({"version", "devices", "nodes", "models"})) {
    read_version(root, kCatalogFileVersion);
    ClusterSpec spec{.name = "catalogue", .devices = read_devices(root["devices"]), .groups = {}};
    read_groups(root["nodes"], spec, UseCatalog::no);
    catalog.devices = std::move(spec.devices);
    catalog.nodes = std::move(spec.groups);
    for (const JsonReader& row : root["models"].array()) {
      if (!row.object({"source", "model"})) continue;
      catalog.models.push_back({read_model_object(row["model"]), row["source"].string()});
    }
    if (json.diagnostics() == 0) check_sources(catalog, root);
  }
  json.finish();
  return catalog;
}

const Catalog& catalog() {
  static const Catalog known = parse_catalog("catalog.json", std::string(catalog_text()));
  return known;
}

}  // namespace tandem
