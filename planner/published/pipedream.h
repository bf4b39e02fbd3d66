#pragma once
// PipeDream's planner (SOSP 2019, section 3.1): stages of a profiled graph, each with a number of
// replicas, on machines within machines.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/import/graph_file.h"

namespace tandem {

/// Machines of one kind side by side; each is a machine of the level before, or a device.
struct PipeDreamLevel {
  std::int32_t machines = 1;
  double bytes_per_s = 1e9;  // between any two of them
};

struct PipeDreamQuestion {
  LayerGraph graph;
  std::vector<PipeDreamLevel> levels;  // innermost first
  double memory_bytes = 0.0;           // of a device; 0: no limit
  /// Of gradients and the optimizer, for each byte of parameters. 0: memory is counted as the
  /// authors do, who leave these out, and of a stage on all devices hold nothing.
  double state_share = 0.0;
};

struct PipeDreamStage {
  std::vector<std::size_t> layers;  // of the question's graph, ascending
  std::int32_t replicas = 1;        // devices that take microbatches in turn
};

struct PipeDreamPlan {
  double bottleneck_s = 0.0;  // of the slowest stage, or link, for each microbatch
  double one_device_s = 0.0;  // of all layers
  std::size_t states = 0;     // ways to cut the graph in two
  std::vector<PipeDreamStage> stages;
};

/// The plan whose slowest stage or link is fastest, as the authors' optimizer counts (pipedream_2bw
/// branch's predecessor, optimizer_graph_hierarchical.py, with a compression ratio of 1): a stage
/// of m replicas takes (compute + 4 (m − 1) / m · parameters / rate) / m, what crosses a cut
/// 2 · bytes / (rate · m) for the m replicas behind it; where memory is limited, a stage holds its
/// outputs and parameters once for each minibatch in flight. All devices are used. A level's
/// machine is what the best pipeline within it makes of its layers. Empty: no plan fits. Of several
/// as fast, the one that is found first, by the order of the graph. Inputs, which load data, and
/// sinks that select an element are left out as there. Throws InputError where the graph can be cut
/// in more than 2,048 ways, or has no layer.
std::optional<PipeDreamPlan> plan_pipedream(const PipeDreamQuestion& question);

}  // namespace tandem
