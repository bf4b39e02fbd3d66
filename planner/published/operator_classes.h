#pragma once
// The operators of a graph joined into what stands on one device, and the order among them.

#include <cstddef>
#include <vector>

#include "core/import/operator_graph.h"
#include "planner/published/ideals.h"

namespace tandem {

/// Operators that stand on one device.
struct OperatorClass {
  std::vector<std::size_t> nodes;  // of the graph
  double accelerator_time = 0.0, processor_time = 0.0, bytes = 0.0;
  bool on_accelerators = true;
};

/// Outputs of one class to the same others.
struct OperatorSender {
  std::size_t from = 0;
  std::vector<std::size_t> to;  // other classes, ascending
  double time = 0.0;
};

struct OperatorClasses {
  std::vector<OperatorClass> classes;
  NodeGraph order{0};  // of forwards: what stands before a cut has all that feeds it
  std::vector<OperatorSender> senders;
};

/// By color; what feeds itself through others joins them, and what takes no time and has but one
/// neighbour joins that, where it costs least. Where a class has backward operators alone, their
/// edges among each other count backwards, as the authors count them.
OperatorClasses classes_of(const OperatorGraph& graph);

}  // namespace tandem
