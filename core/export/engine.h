#pragma once
// What plans for other engines have in common: stages of whole blocks, and what engines can't do.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/export/exporters.h"
#include "core/files/plan_cluster.h"

namespace tandem {

/// A stage as other engines build it.
struct BlockStage {
  bool embedding = false, head = false;
  std::int32_t first = 0, last = 0;  // blocks, half open
};
/// Empty: a stage ends within a block.
std::optional<std::vector<BlockStage>> block_stages(const Plan& plan);

/// What a plan without a cluster is taken to assume: its own machine, nothing shared.
const PlanCluster& cluster_or_machine(const Plan& plan);

/// Whether the plan's order is that of this schedule at the same request.
bool runs_as(const ExportedPlan& exported, std::string_view schedule);

/// Schedules without delays that can be run so, at the plan's depth and microbatches.
std::vector<std::string> schedules_that(const ExportedPlan& exported,
                                        const std::function<bool(const Schedule&)>& can_be_run);
/// Without the sums over replicas and tied stages, and the norms, that engines make by themselves
/// at the end of a batch: what PyTorch's CSV says of a schedule.
Schedule without_sums(Schedule schedule);
/// Whether PyTorch's CSV has words for the rest.
bool has_csv_words(const Schedule& schedule);

// Each adds what it finds.
/// A model that is no transformer, or stages that end within blocks.
void check_blocks(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles);
/// Gradients corrected for delays.
void check_correction(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles);
/// An optimizer that is not among those.
void check_optimizer(const ExportedPlan& exported, const std::vector<OptimizerKind>& known,
                     std::string_view engine, std::vector<ExportObstacle>& obstacles);
/// Words that PyTorch's CSV lacks.
void check_csv(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles);

/// Comment lines, each behind "# ": where it is from, and what was predicted.
std::string comments(const ExportedPlan& exported);

/// "plan" of "folder/plan.json".
std::string stem_of(const std::string& file);

// Of engines that a job may start (sbatch).
std::vector<ExportObstacle> megatron_obstacles(const ExportedPlan& exported);
/// A line each, without what the script sets itself: nodes and hosts.
std::vector<std::string> megatron_arguments(const ExportedPlan& exported);
std::string megatron_text(const ExportedPlan& exported);
std::vector<ExportObstacle> torchtitan_obstacles(const ExportedPlan& exported);
std::string torchtitan_text(const ExportedPlan& exported);
std::vector<ExportObstacle> sbatch_obstacles(const ExportedPlan& exported);
std::string sbatch_text(const ExportedPlan& exported);
std::string plan_as_json(const ExportedPlan& exported);

}  // namespace tandem
