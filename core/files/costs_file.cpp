#include "core/files/costs_file.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/text/files.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kCostsFileVersion = 1;

Duration duration_or(const JsonReader& reader, Duration otherwise) {
  return reader.absent() ? otherwise : reader.duration();
}

void read_backward(const JsonReader& reader, StageCostRow& costs) {
  const JsonReader whole = reader.optional("backward_ns");
  const JsonReader input = reader.optional("backward_input_ns");
  const JsonReader weight = reader.optional("backward_weight_ns");
  if (input.absent() != weight.absent() || (whole.absent() && input.absent())) {
    std::string found = "none of them";
    if (!input.absent()) found = "only \"backward_input_ns\" of the halves";
    if (!weight.absent()) found = "only \"backward_weight_ns\" of the halves";
    reader.diagnose(
        "expected \"backward_ns\", or both \"backward_input_ns\" and "
        "\"backward_weight_ns\", found " +
        found);
  }
  costs.backward = whole.duration();
  // A schedule that splits what was given whole takes half of it for each.
  costs.backward_input = duration_or(input, costs.backward / 2);
  costs.backward_weight = duration_or(weight, costs.backward - costs.backward / 2);
  if (!whole.absent()) return;
  costs.backward = costs.backward_input + costs.backward_weight;
  if (costs.backward > kLongestDuration)
    weight.diagnose("backward_input_ns and backward_weight_ns add up to more than a day");
}

void read_memory(const JsonReader& reader, StageCostRow& costs) {
  const JsonReader activation = reader.optional("activation_bytes");
  const JsonReader weight_gradient = reader.optional("weight_gradient_bytes");
  if (!activation.absent()) costs.activation = activation.bytes();
  if (weight_gradient.absent()) return;
  costs.weight_gradient = weight_gradient.bytes();
  if (!costs.activation) {
    weight_gradient.diagnose("expected \"activation_bytes\" too, of which these are a part");
  } else if (*costs.weight_gradient > *costs.activation) {
    weight_gradient.expected(fmt::format("at most activation_bytes, {}", *costs.activation));
  }
}

StageCostRow read_stage(const JsonReader& reader) {
  StageCostRow costs;
  if (!reader.object({"forward_ns", "backward_input_ns", "backward_weight_ns", "backward_ns",
                      "update_ns", "recompute_ns", "overlapped_ns", "move_ns", "activation_bytes",
                      "weight_gradient_bytes"})) {
    return costs;
  }
  costs.forward = reader["forward_ns"].duration();
  read_backward(reader, costs);
  costs.update = reader.optional("update_ns").duration();
  costs.recompute = duration_or(reader.optional("recompute_ns"), costs.forward);
  if (reader.has("overlapped_ns")) costs.overlapped = reader["overlapped_ns"].duration();
  if (reader.has("move_ns")) costs.move = reader["move_ns"].duration();
  read_memory(reader, costs);
  return costs;
}

Json stage_json(const StageCostRow& costs) {
  Json json = {{"forward_ns", costs.forward.count()},
               {"backward_input_ns", costs.backward_input.count()},
               {"backward_weight_ns", costs.backward_weight.count()},
               {"backward_ns", costs.backward.count()},
               {"update_ns", costs.update.count()},
               {"recompute_ns", costs.recompute.count()}};
  if (costs.overlapped) json["overlapped_ns"] = costs.overlapped->count();
  if (costs.move) json["move_ns"] = costs.move->count();
  if (costs.activation) json["activation_bytes"] = *costs.activation;
  if (costs.weight_gradient) json["weight_gradient_bytes"] = *costs.weight_gradient;
  return json;
}

}  // namespace

StageCostFile parse_costs(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  const JsonReader root = json.root();
  StageCostFile costs;
  if (root.object(
          {"version", "stages", "transfer_ns", "link_transfers_ns", "reduce_ns", "norm_ns"})) {
    read_version(root, kCostsFileVersion);
    const JsonReader stages = root["stages"];
    for (const JsonReader& stage : stages.array()) costs.stages.push_back(read_stage(stage));
    const bool none = stages.kind() == JsonKind::array && costs.stages.empty();
    if (none) stages.expected("a stage at least");
    costs.transfer = root.optional("transfer_ns").duration();
    const JsonReader links = root.optional("link_transfers_ns");
    if (!links.absent()) {
      for (const JsonReader& link : links.array()) costs.links.push_back(link.duration());
      if (root.has("transfer_ns")) links.expected("no \"transfer_ns\" besides");
    }
    costs.reduce = root.optional("reduce_ns").duration();
    costs.norm = root.optional("norm_ns").duration();
  }
  json.finish();
  return costs;
}

StageCostFile read_costs(const std::string& path) {
  return parse_costs(path, read_file(path, kLargestJson));
}

Json costs_json(const StageCostFile& costs) {
  Json stages = Json::array();
  for (const StageCostRow& stage : costs.stages) stages.push_back(stage_json(stage));
  Json json = {{"version", kCostsFileVersion}, {"stages", std::move(stages)}};
  if (costs.links.empty()) {
    json["transfer_ns"] = costs.transfer.count();
  } else {
    for (const Duration link : costs.links) json["link_transfers_ns"].push_back(link.count());
  }
  json["reduce_ns"] = costs.reduce.count();
  json["norm_ns"] = costs.norm.count();
  return json;
}

std::string costs_text(const StageCostFile& costs) { return json_text(costs_json(costs)); }

}  // namespace tandem
