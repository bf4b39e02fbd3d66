#include "core/files/profile_file.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files/model_file.h"
#include "core/files/optimizer_json.h"
#include "core/files/read.h"
#include "core/text/files.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kProfileFileVersion = 1;
constexpr std::int32_t kMostProfiledDevices = 65'535;
constexpr std::int32_t kLargestMicrobatch = 1'048'576;
constexpr std::size_t kMostDegrees = 64;

/// What is measured, and by how many devices that share it.
struct LayerRow {
  LayerCost cost;
  std::int32_t tensor = 1;
};

LayerRow read_layer(const JsonReader& reader) {
  LayerRow row;
  LayerCost& cost = row.cost;
  if (!reader.object({"kind", "microbatch_size", "tensor", "forward_ns", "backward_input_ns",
                      "backward_weight_ns", "backward_ns", "selective_recompute_ns", "recompute_ns",
                      "update_ns"})) {
    return row;
  }
  cost.kind = reader["kind"].one_of<LayerKind>(kTrainableLayerKinds);
  cost.microbatch_size = reader["microbatch_size"].integer<std::int32_t>(1, kLargestMicrobatch);
  cost.forward = reader["forward_ns"].duration();
  cost.backward_input = reader["backward_input_ns"].duration();
  cost.backward_weight = reader["backward_weight_ns"].duration();
  cost.backward = reader["backward_ns"].duration();
  cost.selective_recompute = reader["selective_recompute_ns"].duration();
  if (reader.has("recompute_ns")) cost.recompute = reader["recompute_ns"].duration();
  cost.update = reader["update_ns"].duration();
  if (reader.has("tensor"))
    row.tensor = reader["tensor"].integer<std::int32_t>(1, kMostProfiledDevices);
  return row;
}

TransferCost read_transfer(const JsonReader& reader) {
  TransferCost cost;
  if (!reader.object({"bytes", "time_ns"})) return cost;
  cost.bytes = reader["bytes"].bytes();
  cost.time = reader["time_ns"].duration();
  return cost;
}

/// Diagnoses each row whose key an earlier row has.
template <class Row, class KeyOf>
void check_distinct(const std::vector<JsonReader>& readers, const std::vector<Row>& rows,
                    KeyOf key_of, const std::string& what) {
  std::map<std::decay_t<std::invoke_result_t<KeyOf, const Row&>>, std::size_t> last;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [before, is_new] = last.try_emplace(std::invoke(key_of, rows[i]), i);
    if (is_new) continue;
    readers[i].diagnose(
        fmt::format("expected one entry for each {}, found a second one; the first is entry {}",
                    what, std::exchange(before->second, i)));
  }
}

/// The rows. If all are sound, diagnoses those whose key an earlier one has.
template <class Row, class KeyOf>
std::vector<Row> read_distinct(const JsonReader& reader, Row (*read)(const JsonReader&),
                               KeyOf key_of, const std::string& what) {
  const std::size_t before = reader.diagnostics();
  const std::vector<JsonReader> readers = reader.array();
  std::vector<Row> rows;
  for (const JsonReader& one : readers) rows.push_back(read(one));
  if (reader.diagnostics() == before) check_distinct(readers, rows, key_of, what);
  return rows;
}

/// What `profile` is beside its layers, at each tensor degree with those of that degree; at degree
/// 1 in any case, or where there are none.
TensorProfiles read_layers(const JsonReader& reader, bool model_sound, const Profile& profile,
                           bool whole) {
  const std::size_t before = reader.diagnostics();
  const std::vector<JsonReader> readers = reader.array();
  std::vector<LayerRow> rows;
  for (const JsonReader& one : readers) rows.push_back(read_layer(one));
  TensorProfiles profiles;
  if (whole || rows.empty()) profiles.try_emplace(1, profile);
  std::set<std::int32_t> degrees;
  for (const LayerRow& row : rows) degrees.insert(row.tensor);
  if (degrees.size() > kMostDegrees)
    reader.diagnose(
        fmt::format("expected at most {} tensor degrees, found {}", kMostDegrees, degrees.size()));
  if (reader.diagnostics() != before) return profiles;
  for (const LayerRow& row : rows)
    profiles.try_emplace(row.tensor, profile).first->second.layers.push_back(row.cost);
  check_distinct(
      readers, rows,
      [](const LayerRow& row) {
        return std::tuple(row.cost.kind, row.cost.microbatch_size, row.tensor);
      },
      "kind, microbatch size and tensor degree");
  if (!model_sound) return profiles;
  std::vector<LayerKind> needed = layers_of(profile.model);
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  for (const auto& [tensor, at] : profiles) {
    for (const LayerKind kind : needed) {
      if (std::ranges::find(at.layers, kind, &LayerCost::kind) != at.layers.end()) continue;
      reader.diagnose(fmt::format("no entry of kind \"{}\"{}, which the model has", name(kind),
                                  profiles.size() == 1 && tensor == 1
                                      ? std::string()
                                      : fmt::format(" at tensor degree {}", tensor)));
    }
  }
  return profiles;
}

SliceCosts read_slice(const JsonReader& reader) {
  SliceCosts slice;
  if (!reader.object({"tokens", "before", "layers"})) return slice;
  slice.tokens = reader["tokens"].integer<std::int32_t>(1, kLongestSequence);
  slice.before = reader["before"].integer<std::int32_t>(0, kLongestSequence);
  for (const LayerRow& row : read_distinct(
           reader["layers"], read_layer,
           [](const LayerRow& one) {
             return std::tuple(one.cost.kind, one.cost.microbatch_size, one.tensor);
           },
           "kind, microbatch size and tensor degree")) {
    if (row.tensor == 1) slice.layers.push_back(row.cost);
  }
  return slice;
}

std::vector<SliceCosts> read_slices(const JsonReader& reader) {
  return read_distinct(
      reader, read_slice,
      [](const SliceCosts& slice) { return std::pair(slice.tokens, slice.before); },
      "number of tokens, and of those before");
}

ProductAlgorithm read_algorithm(const JsonReader& reader) {
  ProductAlgorithm algorithm;
  if (!reader.object({"product", "library", "algorithm", "time_ns", "first_time_ns", "measured"}))
    return algorithm;
  algorithm.product = reader["product"].string();
  algorithm.library = reader["library"].string();
  algorithm.algorithm = reader["algorithm"].string();
  algorithm.time = reader["time_ns"].duration();
  algorithm.first_time = reader["first_time_ns"].duration();
  algorithm.measured = reader["measured"].integer<std::int32_t>(1, kMostProfiledDevices);
  return algorithm;
}

/// None where the profile has none.
std::vector<ProductAlgorithm> read_algorithms(const JsonReader& reader) {
  return read_distinct(reader, read_algorithm, &ProductAlgorithm::product, "product");
}

/// `trained`: of a model that can be, whose layers one device computes alone.
TensorProfiles read_profile_object(const JsonReader& root, bool trained) {
  Profile profile;
  if (!root.object({"version", "machine", "date", "command", "backend", "kernels", "model",
                    "optimizer", "delay_correction", "busy_devices", "instruction_overhead_ns",
                    "layers", "slices", "transfers", "products"})) {
    return {{1, profile}};
  }
  read_version(root, kProfileFileVersion);
  profile.machine = root["machine"].line();
  profile.date = root["date"].line();
  profile.command = root["command"].string();
  profile.backend = root["backend"].line();
  profile.kernels = root.optional("kernels").line();
  const std::size_t before_model = root.diagnostics();
  profile.model = trained ? read_trainable_model(root["model"]) : read_model_object(root["model"]);
  const bool model_sound = root.diagnostics() == before_model;
  profile.optimizer = read_optimizer(root);
  profile.busy_devices = root["busy_devices"].integer<std::int32_t>(1, kMostProfiledDevices);
  profile.instruction_overhead = root["instruction_overhead_ns"].duration();
  profile.transfers = read_distinct(root["transfers"], read_transfer, &TransferCost::bytes, "size");
  read_algorithms(root.optional("products"));
  profile.slices = read_slices(root.optional("slices"));
  return read_layers(root["layers"], model_sound, profile, trained);
}

}  // namespace

Profile parse_profile(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  TensorProfiles profiles = read_profile_object(json.root(), true);
  json.finish();
  return std::move(profiles.at(1));
}

TensorProfiles parse_tensor_profiles(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  TensorProfiles profiles = read_profile_object(json.root(), false);
  json.finish();
  return profiles;
}

TensorProfiles read_tensor_profiles(const std::string& path) {
  return parse_tensor_profiles(path, read_file(path, kLargestJson));
}

Profile read_profile(const std::string& path) {
  return parse_profile(path, read_file(path, kLargestJson));
}

std::vector<ProductAlgorithm> parse_product_algorithms(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  read_profile_object(json.root(), true);
  std::vector<ProductAlgorithm> algorithms = read_algorithms(json.root().optional("products"));
  json.finish();
  return algorithms;
}

std::vector<ProductAlgorithm> read_product_algorithms(const std::string& path) {
  return parse_product_algorithms(path, read_file(path, kLargestJson));
}

static Json layers_json(const std::vector<LayerCost>& costs) {
  Json layers = Json::array();
  for (const LayerCost& cost : costs) {
    layers.push_back({{"kind", name(cost.kind)},
                      {"microbatch_size", cost.microbatch_size},
                      {"forward_ns", cost.forward.count()},
                      {"backward_input_ns", cost.backward_input.count()},
                      {"backward_weight_ns", cost.backward_weight.count()},
                      {"backward_ns", cost.backward.count()},
                      {"selective_recompute_ns", cost.selective_recompute.count()},
                      {"update_ns", cost.update.count()}});
    if (cost.recompute) layers.back()["recompute_ns"] = cost.recompute->count();
  }
  return layers;
}

Json profile_json(const Profile& profile, const std::vector<ProductAlgorithm>& algorithms) {
  Json transfers = Json::array();
  for (const TransferCost& cost : profile.transfers)
    transfers.push_back({{"bytes", cost.bytes}, {"time_ns", cost.time.count()}});
  Json json = {{"version", kProfileFileVersion},
               {"machine", profile.machine},
               {"date", profile.date},
               {"command", profile.command},
               {"backend", profile.backend},
               {"kernels", profile.kernels},
               {"model", model_json(profile.model)}};
  write_optimizer(profile.optimizer, json);
  json["busy_devices"] = profile.busy_devices;
  json["instruction_overhead_ns"] = profile.instruction_overhead.count();
  json["layers"] = layers_json(profile.layers);
  for (const SliceCosts& slice : profile.slices) {
    json["slices"].push_back({{"tokens", slice.tokens},
                              {"before", slice.before},
                              {"layers", layers_json(slice.layers)}});
  }
  json["transfers"] = std::move(transfers);
  for (const ProductAlgorithm& each : algorithms) {
    json["products"].push_back({{"product", each.product},
                                {"library", each.library},
                                {"algorithm", each.algorithm},
                                {"time_ns", each.time.count()},
                                {"first_time_ns", each.first_time.count()},
                                {"measured", each.measured}});
  }
  return json;
}

std::string profile_text(const Profile& profile, const std::vector<ProductAlgorithm>& algorithms) {
  return json_text(profile_json(profile, algorithms));
}

}  // namespace tandem
