#pragma once
// calibration.json and collectives.json, as core/files/read.h describes it for every file
// (FORMATS.md here): the constants of one kind of devices, and those of sums over devices.

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/calibration.h"
#include "core/model/cluster.h"
#include "core/model/collectives.h"

namespace tandem {

class JsonReader;

/// Whether constants that are missing are a fault.
enum class ConstantsGiven : bool { some, all };
/// What an object says, by the keys of calibration.json; diagnoses what is wrong with it.
void read_constants(const JsonReader& reader, Calibration& constants, ConstantsGiven given);

struct CalibrationFile {
  std::string device;                        // kind of devices measured
  NumberFormat format = NumberFormat::fp16;  // what they computed in
  AttentionKernel attention = AttentionKernel::plain;
  Calibration constants;
  std::optional<FittedRange> fitted = {};       // empty: the file does not say
  std::optional<PredictionSpread> spread = {};  // the same
  friend bool operator==(const CalibrationFile&, const CalibrationFile&) = default;
};

CalibrationFile read_calibration(const std::string& path);
CalibrationFile parse_calibration(const std::string& file, std::string text);
/// Diagnostics go to the reader's file.
CalibrationFile read_calibration_object(const JsonReader& reader);
nlohmann::ordered_json calibration_json(const CalibrationFile& calibration);
std::string calibration_text(const CalibrationFile& calibration);

CollectiveConstants read_collectives(const std::string& path);
CollectiveConstants parse_collectives(const std::string& file, std::string text);
CollectiveConstants read_collectives_object(const JsonReader& reader);
nlohmann::ordered_json collectives_json(const CollectiveConstants& constants);
std::string collectives_text(const CollectiveConstants& constants);

}  // namespace tandem
