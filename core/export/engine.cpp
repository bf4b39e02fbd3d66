#include "core/export/engine.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/model/node_order.h"
#include "core/notation/pytorch_csv.h"
#include "core/schedule/options.h"

namespace tandem {

std::optional<std::vector<BlockStage>> block_stages(const Plan& plan) {
  const std::vector<LayerKind> kinds = layers_of(plan.model);
  std::vector<BlockStage> stages;
  std::int32_t block = 0;
  for (const LayerRange range : plan.stages) {
    BlockStage stage{.first = block, .last = block};
    for (std::int32_t layer = range.first; layer < range.last; ++layer) {
      const LayerKind kind = kinds[static_cast<std::size_t>(layer)];
      if (kind == LayerKind::embedding) stage.embedding = true;
      if (kind == LayerKind::head) stage.head = true;
      if (kind == LayerKind::attention && layer + 1 == range.last) return std::nullopt;
      if (is_mlp(kind) && layer == range.first) return std::nullopt;
      if (is_mlp(kind)) stage.last = ++block;
    }
    stages.push_back(stage);
  }
  return stages;
}

const PlanCluster& cluster_or_machine(const Plan& plan) {
  static const PlanCluster kMachine{.assumptions = {.format = NumberFormat::fp32}};
  return plan.cluster ? *plan.cluster : kMachine;
}

bool runs_as(const ExportedPlan& exported, std::string_view schedule) {
  const ScheduleTraits& row = find_schedule(schedule);
  ScheduleRequest request = schedule_request(exported.plan);
  fit_options(row, request);
  if (reason_against(row, request)) return false;
  const Schedule made = make_schedule(row, request);
  return made.placement == exported.schedule.placement && made.order == exported.schedule.order;
}

std::vector<std::string> schedules_that(const ExportedPlan& exported,
                                        const std::function<bool(const Schedule&)>& can_be_run) {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) {
    const bool searches = option_of(row, &ScheduleRequest::orders) != nullptr;
    if (row.weights != WeightSemantics::vanilla || searches) continue;
    ScheduleRequest request = schedule_request(exported.plan);
    request.slices = {};
    request.costs.reset();
    if (row.replicas_per_device == 0 && request.chunks == 1) request.chunks = 2;
    fit_options(row, request);
    if (reason_against(row, request)) continue;
    if (can_be_run(make_schedule(row, request))) names.emplace_back(row.name);
  }
  return names;
}

Schedule without_sums(Schedule schedule) {
  schedule.width = 1;
  schedule.placement.tied.clear();
  for (std::vector<Op>& order : schedule.order)
    std::erase_if(order,
                  [](const Op& op) { return !is_compute(op.kind) && !makes_version(op.kind); });
  return schedule;
}

/// Why PyTorch's CSV has no words for a schedule; empty: it has.
static std::optional<std::string> csv_lacks(const Schedule& schedule) {
  if (schedule.slices > 1) {
    return "its sequences are cut into slices, which pass keys and values on: PyTorch's "
           "microbatches are whole";
  }
  try {
    print_pytorch_csv(without_sums(schedule), [](std::string_view) {});
    return std::nullopt;
  } catch (const InputError& error) {
    return error.what();
  }
}

bool has_csv_words(const Schedule& schedule) { return !csv_lacks(schedule); }

void check_blocks(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles) {
  const Plan& plan = exported.plan;
  if (plan.model.architecture == Architecture::linear) {
    obstacles.push_back({fmt::format("{} is no transformer", plan.model.name)});
  } else if (!block_stages(plan)) {
    obstacles.push_back(
        {"a stage ends between a block's attention and its mlp: stages there hold "
         "whole blocks",
         "cut",
         {"blocks"}});
  }
}

void check_correction(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles) {
  const DelayCorrection correction = exported.plan.optimizer.correction;
  if (correction == DelayCorrection::none) return;
  obstacles.push_back({fmt::format("its updates correct delayed gradients ({})", name(correction)),
                       "delay-correction",
                       {"none"}});
}

void check_optimizer(const ExportedPlan& exported, const std::vector<OptimizerKind>& known,
                     std::string_view engine, std::vector<ExportObstacle>& obstacles) {
  const OptimizerKind kind = exported.plan.optimizer.kind;
  if (std::ranges::find(known, kind) != known.end()) return;
  ExportObstacle obstacle{fmt::format("{} has no {}", engine, name(kind)), "optimizer"};
  for (const OptimizerKind other : known) obstacle.values.emplace_back(name(other));
  obstacles.push_back(std::move(obstacle));
}

void check_csv(const ExportedPlan& exported, std::vector<ExportObstacle>& obstacles) {
  if (const auto why = csv_lacks(exported.schedule))
    obstacles.push_back({*why, "schedule", schedules_that(exported, has_csv_words)});
}

std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

std::string comments(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  const Prediction& predicted = plan.predicted;
  std::string text = fmt::format("# {} by schedule {}, from {} by tandem export.\n",
                                 plan.model.name, plan.schedule, exported.file);
  if (predicted.period_s > 0.0) {
    text += fmt::format("# Predicted{}{}: {:.4g} s a step, {:.4g} samples/s",
                        plan.cluster ? fmt::format(" on {}", plan.cluster->name) : std::string(),
                        plan.cluster && plan.cluster->contention ? ", contention counted" : "",
                        predicted.period_s, predicted.samples_per_s);
    if (!predicted.peak_bytes.empty()) {
      text += fmt::format(", {} on the fullest device",
                          print_bytes(std::ranges::max(predicted.peak_bytes)));
    }
    text += ".\n";
  }
  const auto nodes =
      plan.cluster ? unequal_nodes(plan.cluster->cluster) : std::vector<std::string>{};
  if (!nodes.empty())
    text += fmt::format("# Ranks are counted on its nodes in this order: {}.\n",
                        fmt::join(nodes, ", "));
  if (predicted.bound_s > 0.0)
    text +=
        fmt::format("# No plan that was searched takes less than {:.4g} s.\n", predicted.bound_s);
  return text;
}

}  // namespace tandem
