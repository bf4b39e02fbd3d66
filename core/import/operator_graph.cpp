#include "core/import/operator_graph.h"

#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "core/text/json_reader.h"

namespace tandem {

namespace {

constexpr std::size_t kMostOperators = 65'536;
constexpr std::int32_t kMostOfAKind = 64;  // accelerators, or processors
constexpr double kMostTime = 1e9, kMostOperatorBytes = 1e15;

class OperatorParser {
 public:
  OperatorParser(const std::string& file, std::string text) : json_(file, std::move(text)) {}

  OperatorGraph graph() {
    const JsonReader root = json_.root();
    if (root.any_object()) {
      graph_.memory_bytes = number(root["maxSizePerFPGA"], kMostOperatorBytes);
      graph_.accelerators = root["maxFPGAs"].integer<std::int32_t>(0, kMostOfAKind);
      graph_.processors = root["maxCPUs"].integer<std::int32_t>(0, kMostOfAKind);
      read_nodes(root["nodes"]);
      read_edges(root["edges"]);
    }
    json_.finish();
    return std::move(graph_);
  }

 private:
  static double number(const JsonReader& reader, double most) {
    const double value = reader.number(0.0);
    if (value > most) reader.expected(fmt::format("a number from 0 to {:g}", most));
    return value;
  }
  /// Files have true and false, or 1 and 0.
  static bool truth(const JsonReader& reader) {
    if (reader.kind() == JsonKind::boolean) return reader.boolean();
    return reader.integer<std::int32_t>(0, 1) == 1;
  }

  void read_nodes(const JsonReader& reader) {
    const std::vector<JsonReader> nodes = reader.array();
    if (!reader.absent() && (nodes.empty() || nodes.size() > kMostOperators)) {
      reader.diagnose(
          fmt::format("expected 1 to {} nodes, found {}", kMostOperators, nodes.size()));
      return;
    }
    for (const JsonReader& node : nodes) {
      OperatorNode& made = graph_.nodes.emplace_back();
      if (!node.any_object()) continue;
      const JsonReader id = node["id"];
      const auto number_of = id_of(id);
      if (!known_.emplace(number_of, graph_.nodes.size() - 1).second)
        id.diagnose("a second such id");
      made.name = node.has("name") ? node["name"].line() : fmt::format("node {}", number_of);
      made.accelerator_time = number(node["fpgaLatency"], kMostTime);
      made.processor_time = number(node["cpuLatency"], kMostTime);
      made.on_accelerators = truth(node["supportedOnFpga"]);
      made.backward = truth(node["isBackwardNode"]);
      if (node.has("colorClass")) made.color = id_of(node["colorClass"]);
      if (node.has("size")) made.bytes = number(node["size"], kMostOperatorBytes);
    }
  }

  static std::int64_t id_of(const JsonReader& reader) {
    return reader.integer<std::int64_t>(std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::int32_t>::max());
  }

  std::optional<std::size_t> node_of(const JsonReader& id) {
    const auto number_of = id_of(id);
    const auto found = known_.find(number_of);
    if (found != known_.end()) return found->second;
    id.diagnose(fmt::format("no node has id {}", number_of));
    return std::nullopt;
  }

  void read_edges(const JsonReader& reader) {
    std::map<std::size_t, double> costs;
    for (const JsonReader& edge : reader.array()) {
      if (!edge.any_object()) continue;
      const auto from = node_of(edge["sourceId"]), to = node_of(edge["destId"]);
      const JsonReader cost = edge["cost"];
      const double time = number(cost, kMostTime);
      if (!from || !to) continue;
      if (std::abs(costs.try_emplace(*from, time).first->second - time) > 1e-6)
        cost.diagnose("another edge of this node has another cost: its output is one");
      graph_.nodes[*from].transfer_time = time;
      graph_.edges.emplace_back(*from, *to);
    }
  }

  JsonFile json_;
  OperatorGraph graph_;
  std::map<std::int64_t, std::size_t> known_;
};

}  // namespace

OperatorGraph parse_operator_graph(const std::string& file, std::string text) {
  return OperatorParser(file, std::move(text)).graph();
}

}  // namespace tandem
