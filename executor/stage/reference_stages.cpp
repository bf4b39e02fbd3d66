#include "executor/stage/reference_stages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/base/check.h"

namespace tandem {

namespace {

/// Microbatches of a batch in the order in which a stage makes their weight gradients.
std::vector<std::int32_t> summing_order(const Schedule& schedule, ReplicaId replica) {
  const std::int32_t m = schedule.microbatches;
  std::vector<std::int32_t> offsets;
  for (const Op& op : schedule.order[schedule.placement.device[replica]]) {
    if (op.replica != replica || !makes_weight_gradient(op.kind)) continue;
    for (std::int32_t k = op.microbatch - op.span + 1; k <= op.microbatch; ++k)
      offsets.push_back(k);
  }
  // Of one batch, what stands a body's length further on is made a body earlier.
  std::ranges::stable_sort(offsets, std::greater(), [m](std::int32_t k) { return k / m; });
  for (std::int32_t& k : offsets) k %= m;
  return offsets;
}

/// Each list in its own order, and the least of those that come next before the others.
std::vector<std::int32_t> merged(const std::vector<std::vector<std::int32_t>>& lists) {
  std::vector<std::int32_t> all;
  std::vector<std::size_t> next(lists.size(), 0);
  for (;;) {
    std::size_t least = lists.size();
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (next[i] == lists[i].size()) continue;
      if (least == lists.size() || lists[i][next[i]] < lists[least][next[least]]) least = i;
    }
    if (least == lists.size()) return all;
    all.push_back(lists[least][next[least]++]);
  }
}

}  // namespace

std::vector<ReferenceStage> stages_of(const ModelSpec& model, const ReferenceConfig& config) {
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  if (config.stages.empty()) {
    TANDEM_CHECK(config.semantics <= WeightSemantics::delayed_by_one);
    const std::int32_t staleness = config.semantics == WeightSemantics::delayed_by_one ? 1 : 0;
    const auto m = static_cast<std::size_t>(config.microbatches);
    return {{.layers = {0, layers},
             .microbatches = config.microbatches,
             .staleness = std::vector<std::int32_t>(m, staleness)}};
  }
  std::int32_t covered = 0;
  for (const ReferenceStage& stage : config.stages) {
    TANDEM_CHECK(stage.layers.first == covered, stage.layers.first, covered);
    TANDEM_CHECK(config.microbatches % stage.microbatches == 0, stage.microbatches);
    covered = stage.layers.last;
  }
  TANDEM_CHECK(covered == layers, covered, layers);
  return config.stages;
}

std::vector<ReferenceStage> reference_stages(const Schedule& schedule,
                                             const std::vector<LayerRange>& layers,
                                             WeightSemantics semantics) {
  const auto m = static_cast<std::size_t>(schedule.microbatches);
  const std::int32_t delay = semantics == WeightSemantics::delayed_by_one ? 1 : 0;
  std::vector<ReferenceStage> stages;
  for (const StageId stage : all_ids<StageId>(layers.size())) {
    const std::vector<ReplicaId> replicas = schedule.placement.replicas_of(stage);
    ReferenceStage row{
        .layers = layers[index(stage)],
        .replicas = static_cast<std::int32_t>(replicas.size()),
        .staleness = std::vector<std::int32_t>(m, delay),
        .reading = schedule.readings.empty() ? Reading{} : schedule.readings[stage],
        .replica = std::vector<std::int32_t>(m)};
    std::vector<std::vector<std::int32_t>> orders;
    for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
      for (const std::int32_t k : orders.emplace_back(summing_order(schedule, replicas[replica])))
        row.replica[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(replica);
      for (const Op& op : schedule.order[schedule.placement.device[replicas[replica]]]) {
        if (op.replica != replicas[replica]) continue;
        if (makes_version(op.kind)) row.microbatches = op.span;
        const std::size_t residue = static_cast<std::size_t>(op.microbatch) % m;
        if (makes_output(op.kind) && semantics > WeightSemantics::delayed_by_one)
          row.staleness[residue] = op.staleness;
        if (makes_input_gradient(op.kind) && semantics == WeightSemantics::latest) {
          row.backward_staleness.resize(m);
          row.backward_staleness[residue] = op.staleness;
        }
      }
    }
    row.order = merged(orders);
    stages.push_back(std::move(row));
  }
  return stages;
}

}  // namespace tandem
