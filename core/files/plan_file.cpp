#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/files/model_file.h"
#include "core/files/optimizer_json.h"
#include "core/files/plan_cluster.h"
#include "core/files/read.h"
#include "core/files/schedule_request_json.h"
#include "core/schedule/options.h"
#include "core/text/files.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

/// Those of a cluster are of version 2, which others need not be: a tandem of before reads them.
constexpr std::int64_t kPlanFileVersion = 1, kClusterPlanFileVersion = 2;
constexpr std::uint16_t kMostPlanDevices = 65'535;
constexpr std::int32_t kMostPlanMicrobatches = 1'048'576;
/// Numbers that a batch may hold in all its activations: their bytes stay within int64.
constexpr double kMostActivations = 0x1p58;

std::string range_text(LayerRange range) {
  return fmt::format("[{}, {}]", range.first, range.last);
}

LayerRange read_range(const JsonReader& reader) {
  const char* hint = "a half-open range, such as [3, 6]";
  if (reader.kind() != JsonKind::array || reader.array().size() != 2) {
    reader.expected("two integers", hint);
    return {};
  }
  const std::vector<JsonReader> ends = reader.array();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  return {ends[0].integer<std::int32_t>(0, kMost), ends[1].integer<std::int32_t>(0, kMost)};
}

/// What is wrong with the stage behind one that ends at `begin`; empty: nothing.
std::string stage_fault(LayerRange range, std::int32_t begin, bool last, std::int32_t layers) {
  if (range.first != begin) {
    return begin == 0
               ? "the first stage to start at layer 0"
               : fmt::format("a range that starts at layer {}, where the stage before ends", begin);
  }
  if (range.size() <= 0) return "at least one layer";
  if (last && range.last != layers)
    return fmt::format("the last stage to end at layer {}, after the model's last", layers);
  return {};
}

void check_cover(const JsonReader& reader, const Plan& plan) {
  const auto layers = static_cast<std::int32_t>(layers_of(plan.model).size());
  const std::vector<JsonReader> rows = reader.array();
  const std::size_t stages = stage_count(plan);
  if (stages > static_cast<std::size_t>(layers)) {
    reader.diagnose(fmt::format("more stages than layers: {} stages for the model's {} layers",
                                stages, layers));
    return;
  }
  if (rows.size() != stages) {
    const char* why = !plan.request.replicas.empty()  ? "for each entry of the replicas"
                      : stages > plan.request.devices ? "for each chunk of each device"
                                                      : "for each device of the depth";
    reader.diagnose(fmt::format("expected {} stages, one {}, found {}", stages, why, rows.size()));
    return;
  }
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerRange range = plan.stages[i];
    const std::string fault = stage_fault(range, begin, i + 1 == rows.size(), layers);
    if (!fault.empty())
      rows[i].diagnose(fmt::format("expected {}, found {}", fault, range_text(range)));
    begin = range.last;
  }
}

Prediction read_prediction(const JsonReader& reader) {
  Prediction predicted;
  if (!reader.object({"period_s", "samples_per_s", "peak_bytes", "bound_s"})) return predicted;
  predicted.period_s = reader["period_s"].number(0.0);
  predicted.samples_per_s = reader["samples_per_s"].number(0.0);
  for (const JsonReader& bytes : reader["peak_bytes"].array())
    predicted.peak_bytes.push_back(bytes.bytes());
  if (reader.has("bound_s")) predicted.bound_s = reader["bound_s"].number(0.0);
  return predicted;
}

StageOrderCosts read_stage_costs(const JsonReader& reader) {
  StageOrderCosts costs;
  if (!reader.object({"forward_ns", "backward_input_ns", "backward_weight_ns", "update_ns"}))
    return costs;
  costs.forward = reader["forward_ns"].duration();
  costs.backward_input = reader["backward_input_ns"].duration();
  costs.backward_weight = reader["backward_weight_ns"].duration();
  costs.update = reader.optional("update_ns").duration();
  return costs;
}

OrderCosts read_order_costs(const JsonReader& reader, std::size_t wanted) {
  OrderCosts costs;
  if (!reader.object({"stages", "transfer_ns"})) return costs;
  const JsonReader stages = reader["stages"];
  for (const JsonReader& row : stages.array()) costs.stages.push_back(read_stage_costs(row));
  if (stages.kind() == JsonKind::array && costs.stages.size() != wanted)
    stages.expected(fmt::format("{} stages, as many as the plan has", wanted));
  costs.transfer = reader["transfer_ns"].duration();
  return costs;
}

Json order_costs_json(const OrderCosts& costs) {
  Json stages = Json::array();
  for (const StageOrderCosts& stage : costs.stages) {
    stages.push_back({{"forward_ns", stage.forward.count()},
                      {"backward_input_ns", stage.backward_input.count()},
                      {"backward_weight_ns", stage.backward_weight.count()}});
    if (stage.update > Duration{}) stages.back()["update_ns"] = stage.update.count();
  }
  return {{"stages", std::move(stages)}, {"transfer_ns", costs.transfer.count()}};
}

/// The model, the devices and their stages, and what must agree with them.
void read_cut(const JsonReader& root, Plan& plan) {
  const std::size_t before = root.diagnostics();
  plan.model =
      root.has("cluster") ? read_model_object(root["model"]) : read_trainable_model(root["model"]);
  plan.request.devices = root["depth"].integer<std::uint16_t>(1, kMostPlanDevices);
  read_schedule_options(root, plan.request);
  const bool sound = root.diagnostics() == before;

  const std::size_t before_stages = root.diagnostics();
  const JsonReader stages = root["stages"];
  for (const JsonReader& row : stages.array()) plan.stages.push_back(read_range(row));
  if (sound && root.diagnostics() == before_stages) check_cover(stages, plan);

  const std::size_t before_prediction = root.diagnostics();
  plan.predicted = read_prediction(root["predicted"]);
  const std::size_t peaks = plan.predicted.peak_bytes.size();
  if (sound && root.diagnostics() == before_prediction && peaks != plan.request.devices) {
    root["predicted"]["peak_bytes"].diagnose(fmt::format(
        "expected {} numbers, one for each device, found {}", plan.request.devices, peaks));
  }
}

void check_size(const JsonReader& root, const Plan& plan) {
  const ModelSpec& model = plan.model;
  const double tokens = 1.0 * plan.request.microbatches * plan.microbatch_size * model.sequence;
  constexpr double kNumbersPerChannel = 16.0;
  const double held = tokens * (kNumbersPerChannel * model.width * model.blocks + model.vocabulary);
  if (held > kMostActivations) {
    root["microbatch_size"].diagnose(
        fmt::format("a batch of {} microbatches of this size would hold {:.1g} numbers of "
                    "activations; expected at most {:.1g}",
                    plan.request.microbatches, held, kMostActivations));
  }
}

Plan read_plan_object(const JsonReader& root) {
  Plan plan;
  std::vector<std::string_view> known{
      "version",         "model",        "schedule",    "schedule_file", "depth",
      "microbatch_size", "microbatches", "order_costs", "optimizer",     "delay_correction",
      "stages",          "profile",      "predicted",   "cluster"};
  for (const ScheduleOption& option : schedule_options()) {
    if (!option.key.empty()) known.push_back(option.key);
  }
  if (!root.object(known)) return plan;
  read_version(root, kClusterPlanFileVersion);
  plan.schedule = root["schedule"].line();
  if (root.has("schedule_file")) plan.schedule_file = root["schedule_file"].line();
  read_cut(root, plan);
  plan.microbatch_size = root["microbatch_size"].integer<std::int32_t>(1, kMostPlanMicrobatches);
  plan.request.microbatches = root["microbatches"].integer<std::int32_t>(1, kMostPlanMicrobatches);
  if (root.has("order_costs"))
    plan.request.costs = read_order_costs(root["order_costs"], plan.stages.size());
  plan.optimizer = read_optimizer(root);
  plan.profile = root["profile"].line();
  read_plan_cluster(root, plan);
  if (root.diagnostics() == 0) check_size(root, plan);
  return plan;
}

}  // namespace

Plan parse_plan(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  Plan plan = read_plan_object(json.root());
  json.finish();
  return plan;
}

Plan read_plan(const std::string& path) { return parse_plan(path, read_file(path, kLargestJson)); }

std::string plan_text(const Plan& plan) {
  Json stages = Json::array();
  for (const LayerRange& range : plan.stages) stages.push_back({range.first, range.last});
  const Prediction& predicted = plan.predicted;
  TANDEM_CHECK(std::isfinite(predicted.period_s) && std::isfinite(predicted.samples_per_s));
  Json json = {{"version", plan.cluster ? kClusterPlanFileVersion : kPlanFileVersion},
               {"model", model_json(plan.model)},
               {"schedule", plan.schedule}};
  if (!plan.schedule_file.empty()) json["schedule_file"] = plan.schedule_file;
  json["width"] = plan.request.width;  // beside the depth, before the other options
  json["depth"] = plan.request.devices;
  json["microbatch_size"] = plan.microbatch_size;
  json["microbatches"] = plan.request.microbatches;
  write_schedule_options(plan.request, json);
  if (plan.request.costs) json["order_costs"] = order_costs_json(*plan.request.costs);
  write_optimizer(plan.optimizer, json);
  json["stages"] = stages;
  json["profile"] = plan.profile;
  json["predicted"] = {{"period_s", predicted.period_s},
                       {"samples_per_s", predicted.samples_per_s},
                       {"peak_bytes", predicted.peak_bytes}};
  if (predicted.bound_s > 0.0) json["predicted"]["bound_s"] = predicted.bound_s;
  if (plan.cluster) json["cluster"] = plan_cluster_json(*plan.cluster);
  return json_text(json);
}

}  // namespace tandem
