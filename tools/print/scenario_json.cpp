#include "tools/print/scenario_json.h"

#include <fmt/format.h>

#include "core/files/schedule_request_json.h"
#include "tools/print/cluster_summary.h"
#include "tools/print/words.h"

namespace tandem::tools {

namespace {

Json as_json(const ScheduleRequest& request) {
  Json json{{"devices", request.devices}, {"microbatches", request.microbatches}};
  write_all_schedule_options(request, json);
  return json;
}

Json costs_json(const PlainCosts& costs) {
  if (costs.file) return {{"costs", costs.path}};
  Json json = Json::object();
  for (const PlainTimeRow& row : kPlainTimeRows) {
    const std::optional<Duration>& time = costs.times.*row.member;
    if (time) json[fmt::format("{}_s", row.flag)] = to_seconds(*time);
  }
  return json;
}

Json source_json(const PlainRequest& plain, const PreparedScenario& prepared) {
  Json json{{"schedule", prepared.scenario.schedule.name},
            {"microbatch_size", plain.microbatch_size}};
  json.update(as_json(prepared.request));
  json.update(costs_json(plain.costs));
  return json;
}

Json source_json(const PlanFileRequest& file, const PreparedScenario& prepared) {
  const Plan& plan = *prepared.plan;
  Json json{{"plan", file.path},
            {"model", plan.model.name},
            {"schedule", plan.schedule},
            {"storage", name(file.storage)},
            {"microbatch_size", plan.microbatch_size}};
  json.update(as_json(prepared.request));
  if (file.link_rate) json["link_bytes_per_s"] = *file.link_rate;
  return json;
}

Json source_json(const ClusterRequest&, const PreparedScenario& prepared) {
  Json json = cluster_config(*prepared.cluster);
  json.update(as_json(prepared.request));
  return json;
}

}  // namespace

Json config_json(const ScenarioRequest& request, const PreparedScenario& prepared) {
  Json json =
      std::visit([&](const auto& source) { return source_json(source, prepared); }, request.source);
  if (request.contention) json["compute_slowdown"] = request.compute_slowdown;
  json["semantics"] = name(prepared.scenario.weights);
  for (const PerturbationTraits& kind : kPerturbations) {
    std::string text;
    for (const Perturbation& one : request.perturbations) {
      if (one.kind == kind.kind) text += (text.empty() ? "" : ",") + text_of(one);
    }
    if (!text.empty()) json[std::string(kind.key)] = text;
  }
  return json;
}

std::array<Assumption, 3> run_assumptions(const ScenarioRequest& request,
                                          const PreparedScenario& prepared) {
  return {{{"lanes", request.lanes == TransferLanes::ideal ? "ideal" : "shared"},
           {"transfers", request.blocking_transfers ? "blocking" : "overlapped"},
           {"contention", request.contention
                              ? "max-min fair shares of every link, all pipelines in step"
                          : prepared.cluster ? "replicas share links; nothing else does"
                                             : "none: no two lanes share a link"}}};
}

Json assumptions_json(const ScenarioRequest& request, const PreparedScenario& prepared) {
  Json json = Json::object();
  if (prepared.cluster) json = cluster_assumptions(request, *prepared.cluster);
  if (prepared.profile) json["profile"] = origin_json(*prepared.profile);
  if (!prepared.cluster && prepared.scenario.capacity)
    json["reserve"] = reserve_json(prepared.scenario.reserve);
  for (const auto& [key, text] : run_assumptions(request, prepared)) json[std::string(key)] = text;
  return json;
}

}  // namespace tandem::tools
