#pragma once
// A program seen as a graph (Boost.Graph): the oracle for its period, and a picture of it in DOT.

#include <string>

#include "core/program/cost.h"
#include "core/text/text_sink.h"

namespace tandem {

/// Nanoseconds a batch of an endless run: the maximum over all cycles of lanes and waits of time
/// over bodies crossed (max-plus spectral theory; found by Howard's policy iteration).
double maximum_cycle_ratio(const Program& program, const CostTable& costs);

/// Graphviz DOT of one body: an instruction a node, in a cluster of its device; waits solid, waits
/// across bodies dashed with their lag, lane order dotted.
void to_dot(const Program& program, const TextSink& out);
inline std::string to_dot(const Program& program) {
  return collected([&](const TextSink& out) { to_dot(program, out); });
}

}  // namespace tandem
