#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/import/graph_file.h"
#include "core/model/tensor_degrees.h"
#include "core/text/json_reader.h"

namespace tandem {
namespace {

constexpr std::size_t kMostPiperLayers = 65'536;
constexpr std::int32_t kMostDegree = 65'535;
constexpr double kMostSeconds = 86'400, kMostPiperBytes = 1e13;
constexpr const char* kPlain = "vanilla";
constexpr const char* kRecomputed = "activation recomp";

double number(const JsonReader& reader, double most, const char* what) {
  const double value = reader.number(0.0);
  if (value <= most) return value;
  reader.expected(fmt::format("{} from 0 to {:g}", what, most));
  return 0.0;
}

/// A layer at one degree.
struct PiperCost {
  Duration plain{}, recomputed{};  // forward and backward; and with the forward once more
  Bytes parameters = 0, held = 0;
};

Duration time_of(const JsonReader& entry) {
  const double seconds = number(entry["timePerSample"], kMostSeconds, "seconds");
  return Duration(std::llround(seconds * 1e9));
}

Bytes bytes_of(const JsonReader& entry, const char* key) {
  return std::llround(number(entry[key], kMostPiperBytes, "bytes"));
}

PiperCost read_cost(const JsonReader& reader) {
  PiperCost cost;
  std::optional<JsonReader> plain, recomputed;
  for (const JsonReader& entry : reader.array()) {
    if (!entry.any_object()) continue;
    const std::string id = entry["id"].string();
    if (id == kPlain) plain = entry;
    if (id == kRecomputed) recomputed = entry;
  }
  if (!plain || !recomputed) {
    reader.diagnose(fmt::format(
        "expected entries \"{}\" and \"{}\": their difference is the time of a layer's forward",
        kPlain, kRecomputed));
    return cost;
  }
  cost.plain = time_of(*plain);
  cost.recomputed = time_of(*recomputed);
  cost.parameters = bytes_of(*plain, "parameterSize");
  cost.held = bytes_of(*plain, "memoryUsageA");
  if (cost.recomputed < cost.plain || cost.recomputed > 2 * cost.plain) {
    (*recomputed)["timePerSample"].expected(
        "the time without recomputation and a forward, at most twice as long");
  }
  return cost;
}

std::map<std::int32_t, PiperCost> read_costs(const JsonReader& reader) {
  std::map<std::int32_t, PiperCost> costs;
  if (!reader.any_object()) return costs;
  for (const auto& [key, value] : reader.members()) {
    const std::int32_t degree = number_in<std::int32_t>(key).value_or(0);
    if (degree < 1 || degree > kMostDegree) {
      value.diagnose(fmt::format("expected tensor degrees from 1 to {} as keys", kMostDegree));
      continue;
    }
    costs.emplace(degree, read_cost(value));
  }
  if (costs.empty()) reader.expected("a tensor degree at least");
  return costs;
}

class PiperParser {
 public:
  PiperParser(std::string file, std::string text, std::int32_t tensor)
      : json_(std::move(file), std::move(text)), tensor_(tensor) {}

  PiperGraph graph() {
    const JsonReader root = json_.root();
    if (root.any_object()) {
      read_nodes(root["nodes"]);
      read_edges(root["edges"]);
    }
    json_.finish();
    std::vector<std::size_t> stuck;
    PiperGraph result{.graph = sorted_graph(layers_, edges_, stuck), .interpolated = interpolated_};
    for (const std::size_t layer : stuck)
      nodes_[layer].diagnose("feeds itself, or is fed by what does: a cycle");
    json_.finish();
    return result;
  }

 private:
  void read_nodes(const JsonReader& reader) {
    nodes_ = reader.array();
    if (!reader.absent() && (nodes_.empty() || nodes_.size() > kMostPiperLayers)) {
      reader.diagnose(
          fmt::format("expected 1 to {} nodes, found {}", kMostPiperLayers, nodes_.size()));
      nodes_.clear();
    }
    for (const JsonReader& node : nodes_) {
      layers_.emplace_back();
      if (!node.any_object()) continue;
      const JsonReader id = node["id"];
      const auto number = id.integer<std::int64_t>(0, std::numeric_limits<std::int32_t>::max());
      if (!known_.emplace(number, layers_.size() - 1).second) id.diagnose("a second such id");
      layers_.back().name = fmt::format("node {}", number);
      layers_.back().what = node["name"].line();
      const JsonReader degrees = node["TMPCs"];
      const std::size_t before = json_.diagnostics();
      const auto costs = read_costs(degrees);
      if (json_.diagnostics() == before && !costs.empty()) price(layers_.back(), degrees, costs);
    }
  }

  /// Empty: it's beyond those measured, which is diagnosed.
  std::optional<TensorDegrees> degrees_of(const ProfiledLayer& layer, const JsonReader& reader,
                                          const std::map<std::int32_t, PiperCost>& costs) const {
    const auto measured = std::views::keys(costs);
    try {
      return degrees_around({measured.begin(), measured.end()}, tensor_, layer.name);
    } catch (const InputError& error) {
      reader.diagnose(error.what());
      return std::nullopt;
    }
  }

  /// At the degree asked for.
  void price(ProfiledLayer& layer, const JsonReader& reader,
             const std::map<std::int32_t, PiperCost>& costs) {
    const std::optional<TensorDegrees> degrees = degrees_of(layer, reader, costs);
    if (!degrees) return;
    const PiperCost &below = costs.at(degrees->below), &above = costs.at(degrees->above);
    const auto at = [&](std::int64_t one, std::int64_t other) {
      return on_line(one, other, degrees->share);
    };
    const Duration plain(at(below.plain.count(), above.plain.count()));
    const Duration recomputed(at(below.recomputed.count(), above.recomputed.count()));
    layer.forward = std::clamp(recomputed - plain, Duration{}, plain);  // both were rounded
    layer.backward = plain - layer.forward;
    layer.parameters = at(below.parameters, above.parameters);
    layer.held = at(below.held, above.held);
    interpolated_ = interpolated_ || !degrees->measured();
  }

  std::optional<std::size_t> layer_of(const JsonReader& id) {
    const auto number = id.integer<std::int64_t>(0, std::numeric_limits<std::int32_t>::max());
    const auto found = known_.find(number);
    if (found != known_.end()) return found->second;
    id.diagnose(fmt::format("no node has id {}", number));
    return std::nullopt;
  }

  void read_edges(const JsonReader& reader) {
    for (const JsonReader& edge : reader.array()) {
      if (!edge.any_object()) continue;
      const auto from = layer_of(edge["sourceId"]), to = layer_of(edge["destId"]);
      const Bytes bytes = bytes_of(edge, "communicationCost");
      if (!from || !to) continue;
      edges_.emplace_back(*from, *to);
      layers_[*from].output = std::max(layers_[*from].output, bytes);
    }
  }

  JsonFile json_;
  std::int32_t tensor_;
  bool interpolated_ = false;
  std::vector<JsonReader> nodes_;
  std::vector<ProfiledLayer> layers_;
  std::map<std::int64_t, std::size_t> known_;
  std::vector<std::pair<std::size_t, std::size_t>> edges_;
};

}  // namespace

PiperGraph parse_piper_graph(const std::string& file, std::string text, std::int32_t tensor) {
  return PiperParser(file, std::move(text), tensor).graph();
}

}  // namespace tandem
