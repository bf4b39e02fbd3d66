#pragma once
// A graph of operators with their times on accelerators and on processors: the JSON of "Efficient
// Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020, msr-fiddle).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct OperatorNode {
  std::string name;
  double accelerator_time = 0.0, processor_time = 0.0;  // of a sample, in the file's unit
  bool on_accelerators = true;                          // else on processors alone
  bool backward = false;
  std::optional<std::int64_t> color = {};  // those of one color stand on one device
  double bytes = 0.0;                      // on an accelerator
  double transfer_time = 0.0;              // of its output from an accelerator, or to one
};

struct OperatorGraph {
  double memory_bytes = 0.0;  // of an accelerator
  std::int32_t accelerators = 1, processors = 0;
  std::vector<OperatorNode> nodes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // from, to
};

/// Throws InputError with every diagnostic found.
OperatorGraph parse_operator_graph(const std::string& file, std::string text);

}  // namespace tandem
