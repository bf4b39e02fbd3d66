#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files/constants_files.h"
#include "core/text/files.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kCalibrationFileVersion = 1;

void read_constants(const JsonReader& reader, Calibration& constants) {
  std::vector<std::string_view> known;
  for (const CalibrationConstant& constant : kCalibrationConstants) known.push_back(constant.key);
  if (!reader.object(known)) return;
  for (const CalibrationConstant& constant : kCalibrationConstants) {
    const JsonReader value = reader[constant.key];
    const double number = value.number(constant.least);
    if (number > constant.most) value.expected(fmt::format("at most {}", constant.most));
    constants.*constant.member = number;
  }
}

}  // namespace

CalibrationFile parse_calibration(const std::string& file, std::string text) {
  JsonFile json(file, std::move(text));
  const JsonReader root = json.root();
  CalibrationFile calibration;
  if (root.object({"version", "device", "dtype", "attention", "constants"})) {
    read_version(root, kCalibrationFileVersion);
    calibration.device = root["device"].line();
    calibration.format = root["dtype"].one_of<NumberFormat>(kNumberFormats);
    calibration.attention = root["attention"].one_of<AttentionKernel>(kAttentionKernels);
    read_constants(root["constants"], calibration.constants);
  }
  json.finish();
  return calibration;
}

CalibrationFile read_calibration(const std::string& path) {
  return parse_calibration(path, read_file(path, kLargestJson));
}

Json calibration_json(const CalibrationFile& calibration) {
  Json constants = Json::object();
  for (const CalibrationConstant& constant : kCalibrationConstants)
    constants[std::string(constant.key)] = calibration.constants.*constant.member;
  return {{"version", kCalibrationFileVersion},
          {"device", calibration.device},
          {"dtype", name(calibration.format)},
          {"attention", name(calibration.attention)},
          {"constants", std::move(constants)}};
}

std::string calibration_text(const CalibrationFile& calibration) {
  return json_text(calibration_json(calibration));
}

}  // namespace tandem
