// The catalogue, put into the binary by the assembler, and its reader. TANDEM_CATALOG: its file.

#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/files/cluster_file.h"
#include "core/files/model_file.h"

asm(".section .rodata\n"
    ".global tandem_catalog_first\n"
    ".global tandem_catalog_last\n"
    "tandem_catalog_first:\n"
    ".incbin \"" TANDEM_CATALOG
    "\"\n"
    "tandem_catalog_last:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char tandem_catalog_first[];
extern const char tandem_catalog_last[];
}

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

std::string_view catalog_text() {
  return {tandem_catalog_first,
          static_cast<std::size_t>(tandem_catalog_last - tandem_catalog_first)};
}

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
