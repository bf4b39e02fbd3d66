#include "core/import/graph_file.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/notation/notation_words.h"
#include "core/text/csv.h"
#include "core/text/json_document.h"
#include "core/text/json_reader.h"

namespace tandem {
namespace {

constexpr std::size_t kMostGraphLayers = 65'536;
constexpr std::size_t kMostEdges = 1 << 20;
constexpr std::string_view kFieldSeparator = " -- ";
constexpr double kNanoseconds = 1e6;  // of a millisecond
constexpr double kMostMilliseconds = 1e6, kMostGraphBytes = 1e15;

class GraphParser {
 public:
  GraphParser(std::string_view text, std::string_view file) : in_(text, file) {
    in_.each_line([this] {
      const std::string_view line = trimmed(in_.line());
      if (line.empty()) return;
      in_.line().front() == '\t' ? read_edge(line) : read_layer(line);
    });
    if (layers_.empty())
      in_.diagnose_whole_text("no layers: expected lines such as \"node1 -- …\"");
    in_.finish();
  }

  LayerGraph graph() {
    join();
    in_.finish();
    std::vector<std::size_t> stuck;
    LayerGraph graph = sorted_graph(std::move(layers_), joined_, stuck);
    for (const std::size_t layer : stuck) {
      in_.diagnose(places_[layer], fmt::format("{} feeds itself, or is fed by what does: a cycle",
                                               shown(places_[layer].word)));
    }
    in_.finish();
    return graph;
  }

 private:
  /// The part before the next " -- ", taken off `rest`.
  static std::string_view take(std::string_view& rest) {
    const std::size_t end = rest.find(kFieldSeparator);
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + kFieldSeparator.size());
    return trimmed(part);
  }

  void read_edge(std::string_view line) {
    const std::string_view from = take(line), to = trimmed(line);
    if (from.empty() || to.empty()) in_.fail(in_.line(), "expected an edge, \"node1 -- node2\"");
    if (edges_.size() == kMostEdges) in_.fail(from, fmt::format("more than {} edges", kMostEdges));
    edges_.emplace_back(in_.place_of(from), in_.place_of(to));
  }

  void read_layer(std::string_view line) {
    const std::string_view name = take(line), what = take(line);
    std::string_view numbers = take(line);
    if (name.empty() || numbers.empty()) {
      in_.fail(in_.line(),
               "expected a layer, \"node1 -- what it is -- forward_compute_time=…, "
               "backward_compute_time=…, activation_size=…, parameter_size=…\"");
    }
    if (layers_.size() == kMostGraphLayers)
      in_.fail(name, fmt::format("more than {} layers", kMostGraphLayers));
    ProfiledLayer layer{.name = std::string(name), .what = std::string(what)};
    layer.forward = time(value_of(numbers, "forward_compute_time"));
    layer.backward = time(value_of(numbers, "backward_compute_time"));
    layer.output = bytes(value_of(numbers, "activation_size"));
    layer.parameters = bytes(value_of(numbers, "parameter_size"));
    if (what.starts_with("Input")) layer.forward = layer.backward = {};
    if (!known_.emplace(name, layers_.size()).second)
      in_.fail(name, fmt::format("a second {}", shown(name)));
    places_.push_back(in_.place_of(name));
    layers_.push_back(std::move(layer));
  }

  std::string_view value_of(std::string_view numbers, std::string_view key) {
    std::optional<std::string_view> value;
    split_cells(numbers, ',', [&](std::string_view one) {
      const std::size_t equal = one.find('=');
      if (!value && equal != std::string_view::npos && one.substr(0, equal) == key)
        value = trimmed(one.substr(equal + 1));
    });
    if (value) return *value;
    in_.fail(numbers, fmt::format("no {}", key));
  }

  double number(std::string_view text, double most, std::string_view what) {
    const auto value = number_in<double>(text);
    if (value && *value >= 0.0 && *value <= most) return *value;
    in_.fail(text, fmt::format("expected {} from 0 to {}, found \"{}\"", what, most, shown(text)));
  }

  Duration time(std::string_view text) {
    return Duration(std::llround(number(text, kMostMilliseconds, "milliseconds") * kNanoseconds));
  }

  /// A number, or several in brackets, which are added up.
  Bytes bytes(std::string_view text) {
    if (!text.starts_with('[')) return std::llround(number(text, kMostGraphBytes, "bytes"));
    if (!text.ends_with(']')) in_.fail(text, "expected a closing bracket");
    text = text.substr(1, text.size() - 2);
    double all = 0;
    split_cells(text, ';',
                [&](std::string_view one) { all += number(one, kMostGraphBytes, "bytes"); });
    if (all > kMostGraphBytes)
      in_.fail(text, fmt::format("expected at most {} bytes in all", kMostGraphBytes));
    return std::llround(all);
  }

  void join() {
    const auto layer_of = [this](const WordPlace& place) -> std::optional<std::size_t> {
      const auto layer = known_.find(place.word);
      if (layer != known_.end()) return layer->second;
      in_.diagnose(place, fmt::format("no layer {}", shown(place.word)));
      return std::nullopt;
    };
    for (const auto& [from, to] : edges_) {
      const auto first = layer_of(from), second = layer_of(to);
      if (first && second) joined_.emplace_back(*first, *second);
    }
  }

  WordReader in_;
  std::vector<ProfiledLayer> layers_;
  std::vector<WordPlace> places_;
  std::map<std::string_view, std::size_t> known_;
  std::vector<std::pair<WordPlace, WordPlace>> edges_;
  std::vector<std::pair<std::size_t, std::size_t>> joined_;
};

}  // namespace

LayerGraph sorted_graph(std::vector<ProfiledLayer> layers,
                        const std::vector<std::pair<std::size_t, std::size_t>>& edges,
                        std::vector<std::size_t>& stuck) {
  std::vector<std::vector<std::size_t>> next(layers.size());
  std::vector<std::size_t> waits(layers.size());
  for (const auto& [from, to] : edges) {
    next[from].push_back(to);
    ++waits[to];
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (waits[layer] == 0) ready.push(layer);
  }
  LayerGraph graph;
  std::vector<std::size_t> place(layers.size());
  while (!ready.empty()) {
    const std::size_t layer = ready.top();
    ready.pop();
    place[layer] = graph.layers.size();
    graph.layers.push_back(std::move(layers[layer]));
    for (const std::size_t one : next[layer]) {
      if (--waits[one] == 0) ready.push(one);
    }
  }
  for (std::size_t layer = 0; layer < waits.size(); ++layer) {
    if (waits[layer] > 0) stuck.push_back(layer);
  }
  for (const auto& [from, to] : edges) {
    if (waits[from] == 0 && waits[to] == 0) graph.edges.emplace_back(place[from], place[to]);
  }
  std::sort(graph.edges.begin(), graph.edges.end());
  return graph;
}

LayerGraph parse_layer_graph(const std::string& file, std::string_view text) {
  return GraphParser(text, file).graph();
}

Bytes bytes_across(const LayerGraph& graph, std::size_t layer) {
  Bytes all = 0;
  std::size_t before = graph.layers.size();
  for (const auto& [from, to] : graph.edges) {  // sorted: each output once
    if (from >= layer || to < layer || from == before) continue;
    before = from;
    all += graph.layers[from].output;
  }
  return all;
}

StageCostFile stage_costs_of(const LayerGraph& graph, const std::vector<LayerRange>& stages,
                             double bytes_per_s) {
  StageCostFile costs;
  for (const LayerRange& range : stages) {
    StageCostRow row;
    const auto first = static_cast<std::size_t>(range.first);
    const bool known = graph.layers[first].held.has_value();
    Bytes held = known ? 0 : bytes_across(graph, first);
    for (std::size_t layer = first; layer < static_cast<std::size_t>(range.last); ++layer) {
      row.forward += graph.layers[layer].forward;
      row.backward += graph.layers[layer].backward;
      held += graph.layers[layer].held.value_or(graph.layers[layer].output);
    }
    if (std::max(row.forward, row.backward) > kLongestDuration)
      throw InputError("a stage would take more than a day");
    row.backward_input = row.backward / 2;
    row.backward_weight = row.backward - row.backward_input;
    row.recompute = row.forward;
    row.activation = held;
    if (range.first > 0) {
      const double seconds =
          bytes_per_s > 0.0 ? static_cast<double>(bytes_across(graph, first)) / bytes_per_s : 0.0;
      costs.links.push_back(std::min(kLongestDuration, Duration(std::llround(seconds * 1e9))));
    }
    costs.stages.push_back(row);
  }
  return costs;
}

}  // namespace tandem
