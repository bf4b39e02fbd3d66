#include <nlohmann/json.hpp>

#include "core/export/engine.h"
#include "core/files/model_file.h"
#include "core/model/node_order.h"
#include "core/notation/notation.h"
#include "core/text/json_text.h"

namespace tandem {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kVersion = 1;

/// Where the layers of each stage are, and on which devices of a pipeline.
Json stages_of(const ExportedPlan& exported) {
  const std::vector<LayerKind> kinds = layers_of(exported.plan.model);
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < exported.plan.stages.size(); ++stage) {
    const LayerRange range = exported.plan.stages[stage];
    Json layers = Json::array(), devices = Json::array();
    for (std::int32_t layer = range.first; layer < range.last; ++layer)
      layers.push_back(name(kinds[static_cast<std::size_t>(layer)]));
    const Placement& placement = exported.schedule.placement;
    for (const ReplicaId replica : placement.replicas_of(id_at<StageId>(stage)))
      devices.push_back(index(placement.device[replica]));
    stages.push_back({{"first_layer", range.first},
                      {"layers", std::move(layers)},
                      {"devices", std::move(devices)}});
  }
  return stages;
}

/// Of each device of a pipeline, by pipeline, the ranks that share its layers.
Json ranks_of(const Plan& plan) {
  const PlanCluster& on = cluster_or_machine(plan);
  const std::int64_t depth = plan.request.devices, width = plan.request.width,
                     tensor = on.assumptions.tensor;
  Json devices = Json::array();
  for (std::int64_t device = 0; device < depth; ++device) {
    Json pipelines = Json::array();
    for (std::int64_t pipeline = 0; pipeline < width; ++pipeline) {
      const bool replicas_first = on.order == DeviceOrder::replicas_first;
      const std::int64_t group =
          replicas_first ? device * width + pipeline : pipeline * depth + device;
      Json members = Json::array();
      for (std::int64_t member = 0; member < tensor; ++member)
        members.push_back(group * tensor + member);
      pipelines.push_back(std::move(members));
    }
    devices.push_back(std::move(pipelines));
  }
  return devices;
}

/// A line of our notation each.
Json order_of(const Schedule& schedule) {
  const std::string text = print_schedule(schedule);
  Json lines = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::string plan_as_json(const ExportedPlan& exported) {
  const Plan& plan = exported.plan;
  const AnalyticAssumptions& assumptions = cluster_or_machine(plan).assumptions;
  const ScheduleRequest& request = plan.request;
  Json json{
      {"version", kVersion},
      {"plan", exported.file},
      {"model", model_json(plan.model)},
      {"schedule", plan.schedule},
      {"weights", name(weight_semantics(plan))},
      {"tensor", assumptions.tensor},
      {"sequence_parallel", assumptions.sequence_parallel},
      {"depth", request.devices},
      {"width", request.width},
      {"zero", assumptions.sharded_optimizer ? 1 : 0},
      {"dtype", name(assumptions.format)},
      {"microbatch_size", plan.microbatch_size},
      {"microbatches", request.microbatches},
      {"global_batch", std::int64_t{plan.microbatch_size} * request.microbatches * request.width},
      {"recompute", name(request.recompute)},
      {"optimizer", name(plan.optimizer.kind)},
      {"stages", stages_of(exported)},
      {"node_order", plan.cluster ? Json(unequal_nodes(plan.cluster->cluster)) : Json::array()},
      {"ranks", ranks_of(plan)},
      {"order", order_of(exported.schedule)},
      {"predicted",
       {{"period_s", plan.predicted.period_s},
        {"samples_per_s", plan.predicted.samples_per_s},
        {"peak_bytes", plan.predicted.peak_bytes}}}};
  return json_text(json);
}

}  // namespace tandem
