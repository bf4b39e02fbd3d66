#pragma once
// Piper's profile of a graph of layers, JSON: time and memory of each at several tensor degrees,
// with and without recomputation.

#include <cstdint>
#include <string>

#include "core/import/graph_file.h"

namespace tandem {

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
