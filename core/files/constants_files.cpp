#include "core/files/constants_files.h"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/text/files.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kCalibrationFileVersion = 1, kMostFitted = 1'000'000'000;
constexpr std::int64_t kCollectivesFileVersion = 1;
constexpr double kLeastTime = 1e-12;

FittedRange read_fitted(const JsonReader& reader) {
  FittedRange range;
  std::vector<std::string_view> known;
  for (const FittedRangeRow& row : kFittedRangeRows) known.push_back(row.key);
  if (!reader.object(known)) return range;
  for (const FittedRangeRow& row : kFittedRangeRows) {
    FittedExtent& extent = range.*row.member;
    const auto ends = reader[row.key].array();
    if (ends.size() != 2) {
      reader[row.key].expected("the least and the most, [1, 8]");
      continue;
    }
    extent.least = ends[0].integer<std::int64_t>(1, kMostFitted);
    extent.most = ends[1].integer<std::int64_t>(extent.least, kMostFitted);
  }
  return range;
}

PredictionSpread read_spread(const JsonReader& reader) {
  PredictionSpread spread;
  if (!reader.object({"rows", "within_80"})) return spread;
  spread.rows = reader["rows"].integer<std::int64_t>(1, kMostFitted);
  spread.within_80 = reader["within_80"].number(0.0);
  return spread;
}

}  // namespace

void read_constants(const JsonReader& reader, Calibration& constants, ConstantsGiven given) {
  std::vector<std::string_view> known;
  for (const CalibrationConstant& constant : kCalibrationConstants) known.push_back(constant.key);
  if (!reader.object(known)) return;
  for (const CalibrationConstant& constant : kCalibrationConstants) {
    const bool required = constant.required && given == ConstantsGiven::all;
    if (!required && !reader.has(constant.key)) continue;
    const JsonReader value = reader[constant.key];
    const double number = value.number(constant.least);
    if (number > constant.most) value.expected(fmt::format("at most {}", constant.most));
    constants.*constant.member = number;
  }
}

CalibrationFile read_calibration_object(const JsonReader& reader) {
  CalibrationFile calibration;
  if (!reader.object({"version", "device", "dtype", "attention", "constants", "fitted", "spread"}))
    return calibration;
  read_version(reader, kCalibrationFileVersion);
  calibration.device = reader["device"].line();
  calibration.format = reader["dtype"].one_of<NumberFormat>(kNumberFormats);
  calibration.attention = reader["attention"].one_of<AttentionKernel>(kAttentionKernels);
  read_constants(reader["constants"], calibration.constants, ConstantsGiven::all);
  if (reader.has("fitted")) calibration.fitted = read_fitted(reader["fitted"]);
  if (reader.has("spread")) calibration.spread = read_spread(reader["spread"]);
  return calibration;
}

CalibrationFile parse_calibration(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  CalibrationFile calibration = read_calibration_object(json.root());
  json.finish();
  return calibration;
}

CalibrationFile read_calibration(const std::string& path) {
  return parse_calibration(path, read_file(path, kLargestJson));
}

Json calibration_json(const CalibrationFile& calibration) {
  Json constants = Json::object();
  for (const CalibrationConstant& constant : kCalibrationConstants) {
    const double value = calibration.constants.*constant.member;
    // What a file may leave out it does where that is said by its absence: 0 is out of bounds.
    if (constant.required || value != Calibration{}.*constant.member)
      constants[std::string(constant.key)] = value;
  }
  Json json{{"version", kCalibrationFileVersion},
            {"device", calibration.device},
            {"dtype", name(calibration.format)},
            {"attention", name(calibration.attention)},
            {"constants", std::move(constants)}};
  if (calibration.spread) {
    json["spread"] = {{"rows", calibration.spread->rows},
                      {"within_80", calibration.spread->within_80}};
  }
  if (!calibration.fitted) return json;
  for (const FittedRangeRow& row : kFittedRangeRows) {
    const FittedExtent& extent = (*calibration.fitted).*row.member;
    json["fitted"][std::string(row.key)] = {extent.least, extent.most};
  }
  return json;
}

std::string calibration_text(const CalibrationFile& calibration) {
  return json_text(calibration_json(calibration));
}

CollectiveConstants read_collectives_object(const JsonReader& reader) {
  CollectiveConstants constants;
  if (!reader.object({"version", "launch_s", "node_hop_s", "simple_s", "low_latency_bytes_per_s",
                      "within_node_bytes_per_s", "between_nodes_bytes_per_s"})) {
    return constants;
  }
  read_version(reader, kCollectivesFileVersion);
  constants.launch_s = reader["launch_s"].number(kLeastTime);
  constants.simple_s = reader["simple_s"].number(kLeastTime);
  constants.low_latency_bytes_per_s = reader["low_latency_bytes_per_s"].number(kLeastRate);
  constants.within_node_bytes_per_s = reader["within_node_bytes_per_s"].number(kLeastRate);
  // Both, or neither where no sums over several nodes were measured.
  if (reader.has("node_hop_s") || reader.has("between_nodes_bytes_per_s")) {
    constants.node_hop_s = reader["node_hop_s"].number(kLeastTime);
    constants.between_nodes_bytes_per_s = reader["between_nodes_bytes_per_s"].number(kLeastRate);
  }
  return constants;
}

CollectiveConstants parse_collectives(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  const CollectiveConstants constants = read_collectives_object(json.root());
  json.finish();
  return constants;
}

CollectiveConstants read_collectives(const std::string& path) {
  return parse_collectives(path, read_file(path, kLargestJson));
}

Json collectives_json(const CollectiveConstants& constants) {
  Json json{{"version", kCollectivesFileVersion},
            {"launch_s", constants.launch_s},
            {"node_hop_s", constants.node_hop_s},
            {"simple_s", constants.simple_s},
            {"low_latency_bytes_per_s", constants.low_latency_bytes_per_s},
            {"within_node_bytes_per_s", constants.within_node_bytes_per_s},
            {"between_nodes_bytes_per_s", constants.between_nodes_bytes_per_s}};
  if (constants.between_nodes_bytes_per_s == 0.0) {
    json.erase("node_hop_s");
    json.erase("between_nodes_bytes_per_s");
  }
  return json;
}

std::string collectives_text(const CollectiveConstants& constants) {
  return json_text(collectives_json(constants));
}

}  // namespace tandem
