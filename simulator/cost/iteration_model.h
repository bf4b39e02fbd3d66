#pragma once
// What a calibration makes of measured iterations: each row's schedule, lowered and compiled once,
// priced by the analytic costs of its cluster and simulated.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/import/iterations.h"
#include "core/lower/lower.h"
#include "core/model/cluster.h"
#include "core/program/program.h"
#include "core/schedule/schedule.h"
#include "simulator/compiled/compiled_program.h"
#include "simulator/cost/analytic.h"
#include "simulator/cost/cluster_costs.h"

namespace tandem {

/// The model's blocks shared out evenly, as Megatron does: the embedding with the first, the head
/// with the last. REQUIRES: no more stages than blocks.
std::vector<LayerRange> even_stages(const ModelSpec& model, std::size_t depth);

/// To be used by one thread.
class IterationModel {
 public:
  /// The schedules have a norm of all gradients, as Megatron's clipping asks. Of the assumptions
  /// format and attention count. Throws InputError where the cluster has too few devices or a
  /// schedule can't serve its row, and names it. REQUIRES: `cluster` outlives it.
  IterationModel(const std::vector<MeasuredIteration>& rows, const Cluster& cluster,
                 const AnalyticAssumptions& assumptions);
  IterationModel(IterationModel&&) = default;  // rows point into the maps

  std::size_t size() const { return rows_.size(); }
  /// A batch of an endless run; the assumptions' own constants, or these.
  double seconds(std::size_t row) const { return seconds(row, assumptions_); }
  double seconds(std::size_t row, const Calibration& calibration) const {
    AnalyticAssumptions assumptions = assumptions_;
    assumptions.calibration = calibration;
    return seconds(row, assumptions);
  }

  const Plan& plan(std::size_t row) const { return rows_[row].plan; }
  const ClusterLayout& layout(std::size_t row) const { return *rows_[row].layout; }
  /// Of this row.
  AnalyticAssumptions assumptions(std::size_t row) const { return of_row(row, assumptions_); }

 private:
  struct Lowered {
    explicit Lowered(const Schedule& schedule) : program(lower(schedule)), compiled(program) {}
    Program program;
    CompiledProgram compiled;
  };
  struct Row {
    Plan plan;
    std::int32_t tensor = 1;
    const Lowered* lowered = nullptr;
    const ClusterLayout* layout = nullptr;
    /// Of the last prices: most constants matter to some rows alone.
    mutable std::map<std::vector<Duration>, double> seconds = {};
  };
  using Shape = std::tuple<std::size_t, std::size_t, std::size_t>;  // width, depth, tensor
  using Loop = std::tuple<std::string, std::size_t, std::size_t, std::int32_t, Recompute>;

  Row made(const MeasuredIteration& measured, const Cluster& cluster);
  double seconds(std::size_t row, const AnalyticAssumptions& assumptions) const;
  AnalyticAssumptions of_row(std::size_t row, AnalyticAssumptions assumptions) const {
    assumptions.tensor = rows_[row].tensor;
    return assumptions;
  }

  AnalyticAssumptions assumptions_;
  std::map<Shape, ClusterLayout> layouts_;
  std::map<Loop, Lowered> lowered_;
  std::vector<Row> rows_;
};

}  // namespace tandem
