#include <utility>

#include <nlohmann/json.hpp>

#include "core/files/constants_files.h"
#include "core/text/files.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kCollectivesFileVersion = 1;
constexpr double kLeastTime = 1e-12;

}  // namespace

CollectiveConstants parse_collectives(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  const JsonReader root = json.root();
  CollectiveConstants constants;
  if (root.object({"version", "launch_s", "node_hop_s", "simple_s", "low_latency_bytes_per_s",
                   "within_node_bytes_per_s", "between_nodes_bytes_per_s"})) {
    read_version(root, kCollectivesFileVersion);
    constants.launch_s = root["launch_s"].number(kLeastTime);
    constants.simple_s = root["simple_s"].number(kLeastTime);
    constants.low_latency_bytes_per_s = root["low_latency_bytes_per_s"].number(kLeastRate);
    constants.within_node_bytes_per_s = root["within_node_bytes_per_s"].number(kLeastRate);
    // Both, or neither where no sums over several nodes were measured.
    if (root.has("node_hop_s") || root.has("between_nodes_bytes_per_s")) {
      constants.node_hop_s = root["node_hop_s"].number(kLeastTime);
      constants.between_nodes_bytes_per_s = root["between_nodes_bytes_per_s"].number(kLeastRate);
    }
  }
  json.finish();
  return constants;
}

CollectiveConstants read_collectives(const std::string& path) {
  return parse_collectives(path, read_file(path, kLargestJson));
}

Json collectives_json(const CollectiveConstants& constants) {
  Json json{{"version", kCollectivesFileVersion},
            {"launch_s", constants.launch_s},
            {"node_hop_s", constants.node_hop_s},
            {"simple_s", constants.simple_s},
            {"low_latency_bytes_per_s", constants.low_latency_bytes_per_s},
            {"within_node_bytes_per_s", constants.within_node_bytes_per_s},
            {"between_nodes_bytes_per_s", constants.between_nodes_bytes_per_s}};
  if (constants.between_nodes_bytes_per_s == 0.0) {
    json.erase("node_hop_s");
    json.erase("between_nodes_bytes_per_s");
  }
  return json;
}

std::string collectives_text(const CollectiveConstants& constants) {
  return json_text(collectives_json(constants));
}

}  // namespace tandem
