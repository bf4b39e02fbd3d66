#pragma once
// Sensitivity: what a run, or a batch of an endless run, would gain if a device, a link or a layer
// were a little faster. Its time is that of its critical paths, and to first order it changes by
// what these spend on the resource. Where several paths are critical, a gain is what all of them
// gain, and a loss what any of them loses: the derivative has two sides.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/analysis/critical_graph.h"
#include "simulator/analysis/resource.h"
#include "simulator/cost/layer_shares.h"
#include "simulator/simulate.h"

namespace tandem {

/// So much time in so many batches.
struct CriticalTime {
  Duration time{};
  std::int64_t batches = 1;
  double seconds_a_batch() const { return to_seconds(time) / static_cast<double>(batches); }
  friend bool operator==(const CriticalTime&, const CriticalTime&) = default;
};

/// What critical paths spend on a resource, or a layer: the one that spends the least, and the one
/// that spends the most. If all its ops take 1 − ε of their time, the whole becomes shorter by
/// ε · least; if they take 1 + ε, it becomes longer by ε · most. Exact up to the ε at which another
/// path becomes critical.
struct CriticalShare {
  CriticalTime least, most;
  friend bool operator==(const CriticalShare&, const CriticalShare&) = default;
};

struct Sensitivity : CriticalShare {
  Resource resource;
};

/// All critical paths of a run, or of an endless run. REQUIRES: program and prices outlive it.
class CriticalPaths {
 public:
  /// Those as long as the makespan of a run of `batches` (as one batch: `CriticalTime::batches` is
  /// 1). Throws InputError when it has more than kMostTraced instances
  /// (simulator/analysis/binding_graph.h).
  static CriticalPaths of_run(const Program& program, const CostTable& costs, std::int64_t batches);
  /// The circuits of the endless run, of which a batch is one. `result` is what simulate() says of
  /// it. REQUIRES: result.exact_cycle. Throws InputError when a cycle has more than kMostTraced
  /// instances.
  static CriticalPaths of_endless_run(const Program& program, const CostTable& costs,
                                      const SimulationResult& result);

  /// What they spend on `share` of the prices, of each none to all of it. Throws InputError when a
  /// cycle takes too long for circuits to be compared exactly.
  CriticalShare spent_on(const CostTable& share) const;
  /// A row for each of resources(program), in that order.
  std::vector<Sensitivity> spent_on_resources() const;
  /// A row for each of them that may be a bottleneck: devices, links and the sums. Much cheaper.
  std::vector<Sensitivity> spent_on_suspects() const;
  /// On all of these layers together.
  CriticalShare spent_on(const LayerShares& shares, const std::vector<std::size_t>& layers) const;
  /// On each layer.
  std::vector<CriticalShare> spent_on_layers(const LayerShares& shares) const;

 private:
  struct Cycle {
    Duration time{};
    std::int64_t batches = 1;
  };
  Sensitivity spent_on(const Resource& resource) const;
  CriticalPaths(const Program& program, const CostTable& costs, CriticalGraph graph,
                std::optional<Cycle> cycle)
      : program_(&program), costs_(&costs), graph_(std::move(graph)), cycle_(cycle) {}
  CriticalTime least_of(const std::vector<std::int64_t>& weights) const;

  const Program* program_;
  const CostTable* costs_;
  CriticalGraph graph_;
  std::optional<Cycle> cycle_;  // empty: the run ends
};

/// The devices, links and sums that are on a critical path; first the one that gains most by being
/// faster, and of equals the one that loses most by being slower.
std::vector<Sensitivity> bottlenecks(const std::vector<Sensitivity>& rows);

/// What limits the endless run once its bottleneck no longer does alone.
struct NextBottleneck {
  Resource resource;
  double from = 0.0;  // the part of its time that the bottleneck is rid of by then, to a thousandth
};
/// `bottleneck` is the first of `bottlenecks` of the endless run. Empty: the run gains what is
/// said down to no time at all, or where the bottleneck ends was not found. Simulates a dozen
/// times.
std::optional<NextBottleneck> next_bottleneck(const Program& program, const CostTable& costs,
                                              const Sensitivity& bottleneck);

}  // namespace tandem
