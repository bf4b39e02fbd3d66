#pragma once
// A profiled graph of layers, and stages cut from it; PipeDream's, graph.txt.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/files/read.h"
#include "core/model/model.h"

namespace tandem {

struct ProfiledLayer {
  std::string name, what;          // "node12", "Conv2d(128, 256, …)"
  Duration forward{}, backward{};  // of a minibatch; of an Input, which loads data, none
  Bytes output = 0, parameters = 0;
  std::optional<Bytes> held = {};  // of a minibatch; not known: its output and what it is sent
};

struct LayerGraph {
  std::vector<ProfiledLayer> layers;                       // each behind those that feed it
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // from, to
};

/// The graph with each layer behind those that feed it, else as they stand. `stuck`: layers that
/// feed themselves, or are fed by such; the graph lacks them.
LayerGraph sorted_graph(std::vector<ProfiledLayer> layers,
                        const std::vector<std::pair<std::size_t, std::size_t>>& edges,
                        std::vector<std::size_t>& stuck);

/// Throws InputError with every diagnostic found: cycles and edges that lead nowhere among them.
LayerGraph parse_layer_graph(const std::string& file, std::string_view text);

/// Bytes that cross from the layers before `layer` to it and those behind.
Bytes bytes_across(const LayerGraph& graph, std::size_t layer);

/// The costs of stages of consecutive layers, for `simulate --costs`. A stage holds what is
/// known that its layers hold; else their outputs and what it is sent. `bytes_per_s`: of links
/// between stages; 0: transfers are free. REQUIRES: ranges in order, of all layers.
StageCostFile stage_costs_of(const LayerGraph& graph, const std::vector<LayerRange>& stages,
                             double bytes_per_s);

// ---- Piper's profile: JSON, with time and memory of each layer at several tensor degrees, with
// and without recomputation ----

struct PiperGraph {
  LayerGraph graph;
  bool interpolated = false;  // some layer was not measured at the degree asked for
};

/// The layers as `tensor` devices that share each see them: measured, or between the degrees around
/// (core/model/tensor_degrees.h). A layer's forward is what recomputation adds to its time.
/// Throws InputError with every diagnostic found: cycles and degrees beyond those measured among
/// them.
PiperGraph parse_piper_graph(const std::string& file, std::string text, std::int32_t tensor);

}  // namespace tandem
