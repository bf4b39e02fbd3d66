#pragma once
// PipeDream's profile of a graph of layers, graph.txt, and stages cut from it.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/io/read.h"
#include "core/model.h"
#include "core/units.h"

namespace tandem {

struct ProfiledLayer {
  std::string name, what;          // "node12", "Conv2d(128, 256, …)"
  Duration forward{}, backward{};  // of a minibatch; of an Input, which loads data, none
  Bytes output = 0, parameters = 0;
};

struct LayerGraph {
  std::vector<ProfiledLayer> layers;                       // each behind those that feed it
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // from, to
};

LayerGraph read_layer_graph(const std::string& path);
/// Throws InputError with every complaint found: cycles and edges that lead nowhere among them.
LayerGraph parse_layer_graph(const std::string& file, std::string_view text);

/// Bytes that cross from the layers before `layer` to it and those behind.
Bytes bytes_across(const LayerGraph& graph, std::size_t layer);

/// The costs of stages of consecutive layers, for `simulate --costs`. A stage holds the outputs of
/// its layers and what it is sent. `bytes_per_s`: of links between stages; 0: transfers are free.
/// REQUIRES: ranges in order, of all layers.
StageCostFile stage_costs_of(const LayerGraph& graph, const std::vector<LayerRange>& stages,
                             double bytes_per_s);

}  // namespace tandem
