#pragma once
// Max-load partitions of operator graphs (NeurIPS 2020, "Efficient Algorithms for Device Placement
// of DNN Graph Operators"): contiguous parts on accelerators and processors whose busiest is least
// busy.

#include <cstddef>
#include <optional>
#include <vector>

#include "core/import/operator_graph.h"

namespace tandem {

struct MaxLoadDevice {
  bool accelerator = true;
  double load = 0.0;               // of a sample, in the graph's unit
  std::vector<std::size_t> nodes;  // ascending
};

struct MaxLoadPlan {
  double load = 0.0;                   // of the busiest device
  std::vector<MaxLoadDevice> devices;  // in the order in which samples pass their forwards
  std::size_t classes = 0;             // of operators that stand on one device
  std::size_t cuts = 0;                // that were looked at
};

/// The least load of the busiest device, by dynamic programming over ideals. A device holds what
/// lies between two cuts of the forwards, and the backwards of the same colors. An accelerator
/// takes its operators' times and those of all outputs that it sends or gets, each once; a
/// processor its operators' times. Exact: parts are listed depth first, and left out only where
/// they, or what is left over for the other devices, take longer than the best plan known, the
/// first of which is the best along some order of the operators. Empty: nothing fits. Throws
/// InputError where more than 2,000,000 cuts are to be looked at.
std::optional<MaxLoadPlan> plan_max_load(const OperatorGraph& graph);

}  // namespace tandem
