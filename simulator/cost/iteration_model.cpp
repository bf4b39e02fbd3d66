#include "simulator/cost/iteration_model.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/model/plan.h"
#include "simulator/run_figures.h"

namespace tandem {

std::vector<LayerRange> even_stages(const ModelSpec& model, std::size_t depth) {
  const auto count = static_cast<std::int32_t>(depth);
  TANDEM_CHECK(count >= 1 && count <= model.blocks, count, model.blocks);
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  std::vector<LayerRange> stages;
  for (std::int32_t stage = 0; stage < count; ++stage) {
    const auto first_block = [&](std::int32_t of) { return of * model.blocks / count; };
    stages.push_back({.first = stage == 0 ? 0 : 1 + 2 * first_block(stage),
                      .last = stage + 1 == count ? layers : 1 + 2 * first_block(stage + 1)});
  }
  return stages;
}

IterationModel::IterationModel(const std::vector<MeasuredIteration>& rows, const Cluster& cluster,
                               const AnalyticAssumptions& assumptions)
    : assumptions_(assumptions) {
  for (const MeasuredIteration& measured : rows) {
    try {
      rows_.push_back(made(measured, cluster));
    } catch (const InputError& error) {
      throw InputError(fmt::format("row {}: {}", rows_.size() + 1, error.what()));
    }
  }
}

IterationModel::Row IterationModel::made(const MeasuredIteration& measured,
                                         const Cluster& cluster) {
  if (measured.devices() > static_cast<std::int64_t>(cluster.size())) {
    throw InputError(fmt::format("{} devices: cluster {} has {}", measured.devices(),
                                 cluster.name(), cluster.size()));
  }
  Row row{.plan = {.model = measured.model,
                   .schedule = measured.schedule,
                   .request = {.devices = static_cast<std::uint16_t>(measured.depth),
                               .microbatches = measured.microbatches,
                               .width = static_cast<std::uint16_t>(measured.width),
                               .recompute = measured.recompute,
                               .global_norm = true},
                   .microbatch_size = measured.microbatch_size},
          .tensor = measured.tensor};
  const std::size_t stages = stage_count(row.plan);
  if (stages > static_cast<std::size_t>(measured.model.blocks))
    throw InputError(fmt::format("{} stages of {} blocks", stages, measured.model.blocks));
  row.plan.stages = even_stages(measured.model, stages);
  const std::size_t width = row.plan.request.width, depth = row.plan.request.devices;
  const auto tensor = static_cast<std::size_t>(measured.tensor);
  row.layout = &layouts_
                    .try_emplace({width, depth, tensor}, cluster, width, depth,
                                 DeviceOrder::replicas_first, tensor)
                    .first->second;
  const Loop loop{measured.schedule, width, depth, measured.microbatches, measured.recompute};
  auto found = lowered_.find(loop);
  if (found == lowered_.end()) found = lowered_.try_emplace(loop, make_schedule(row.plan)).first;
  row.lowered = &found->second;
  return row;
}

double IterationModel::seconds(std::size_t row, const AnalyticAssumptions& assumptions) const {
  const Row& one = rows_[row];
  const Program& program = one.lowered->program;
  const CostTable prices =
      price(program,
            cost_model(program.placement(), cluster_costs(one.plan, program.placement(),
                                                          *one.layout, of_row(row, assumptions))));
  constexpr std::size_t kMostKept = 2 * kCalibrationConstants.size();
  if (one.seconds.size() > kMostKept) one.seconds.clear();
  const auto [place, fresh] = one.seconds.try_emplace(prices.rows(), 0.0);
  if (fresh) place->second = simulated_period_s(program, one.lowered->compiled, prices);
  return place->second;
}

}  // namespace tandem
